//! The operators of projects: small ones of our own.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

/// An operator of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operator {
    /// Its type: `AddCustom`.
    pub op_type: &'static str,
    /// What its directory, its source and its function are called: `add_custom`.
    pub file: &'static str,
    /// Its inputs.
    pub inputs: &'static [&'static str],
    /// Its output.
    pub output: &'static str,
    /// An attribute and its default, if it has one.
    pub attr: Option<(&'static str, &'static str)>,
    /// Whether it can compute the same twice.
    pub deterministic: bool,
    /// Its tiling keys, as the sources are.
    pub keys: &'static [u64],
    /// The files of `op_kernel`: names and texts.
    pub(super) sources: &'static [(&'static str, &'static str)],
    /// The tiling struct, where only the host library knows it.
    pub(super) library_struct: Option<&'static str>,
}

const fn operator(
    op_type: &'static str,
    file: &'static str,
    inputs: &'static [&'static str],
    output: &'static str,
) -> Operator {
    let (attr, library_struct) = (None, None);
    Operator {
        op_type,
        file,
        inputs,
        output,
        attr,
        deterministic: false,
        keys: &[],
        sources: &[],
        library_struct,
    }
}

/// All of them: two tiling keys and cores that a trial compile finds out; keys that template arguments choose; a header that the
/// project's operators share and tiling data that only the host library knows; cube and vector cores together.
pub const OPERATORS: [Operator; 4] = [
    Operator {
        keys: &[1, 2],
        sources: &[
            ("add_custom.cpp", include_str!("sources/add_custom.cpp")),
            ("add_custom_tiling.h", include_str!("sources/add_custom_tiling.h")),
        ],
        ..operator("AddCustom", "add_custom", &["x", "y"], "z")
    },
    Operator {
        attr: Some(("alpha", "1.0")),
        keys: &[264, 272, 1],
        sources: &[
            ("scale_custom.cpp", include_str!("sources/scale_custom.cpp")),
            ("scale_custom_tiling.h", include_str!("sources/scale_custom_tiling.h")),
            ("scale_custom_tiling_key.h", include_str!("sources/scale_custom_tiling_key.h")),
        ],
        ..operator("ScaleCustom", "scale_custom", &["x"], "y")
    },
    Operator {
        keys: &[10, 11],
        sources: &[("gather_rows.cpp", include_str!("sources/gather_rows.cpp"))],
        library_struct: Some("GatherRowsTiling;uint32_t rowsPerCore;uint32_t width"),
        ..operator("GatherRows", "gather_rows", &["x", "indices"], "y")
    },
    Operator {
        deterministic: true,
        keys: &[1],
        sources: &[
            ("fused_matmul.cpp", include_str!("sources/fused_matmul.cpp")),
            ("fused_matmul_tiling.h", include_str!("sources/fused_matmul_tiling.h")),
        ],
        ..operator("FusedMatmul", "fused_matmul", &["a", "b", "bias"], "c")
    },
];

/// Headers that all operators of a project may include.
pub(super) const COMMON: [(&str, &str); 2] = [
    ("cann_compat.h", include_str!("sources/cann_compat.h")),
    ("row_copy.h", include_str!("sources/row_copy.h")),
];

/// A choice of element type and format.
pub(super) type Row = (&'static str, &'static str);

/// The rows that operators can have, in the order in which projects take them.
pub(super) fn rows() -> impl Iterator<Item = Row> {
    const DTYPES: [&str; 7] = ["float16", "float32", "bfloat16", "int32", "int16", "int8", "uint8"];
    const FORMATS: [&str; 7] = ["ND", "NCHW", "NHWC", "NC1HWC0", "FRACTAL_NZ", "HWCN", "NDHWC"];
    FORMATS.into_iter().flat_map(|format| DTYPES.into_iter().map(move |dtype| (dtype, format)))
}

impl Operator {
    /// The ports: names, and whether the element type is that of the row.
    fn ports(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.inputs.iter().map(|name| ("input", *name)).chain([("output", self.output)])
    }

    fn dtypes(&self, port: &str, rows: &[Row]) -> String {
        let dtype = |(dtype, _): &Row| if port == "indices" { "int32" } else { *dtype };
        rows.iter().map(dtype).collect::<Vec<_>>().join(",")
    }

    /// Its part of `aic-<unit>-ops-info.ini`.
    pub(super) fn ini(&self, rows: &[Row]) -> String {
        let mut text = format!("[{}]\n", self.op_type);
        let formats = rows.iter().map(|(_, format)| *format).collect::<Vec<_>>().join(",");
        for (side, at, name) in self.numbered() {
            let dtypes = self.dtypes(name, rows);
            let _ = write!(
                text,
                "{side}{at}.name={name}\n{side}{at}.paramType=required\n{side}{at}.dtype={dtypes}\n{side}{at}.format={formats}\n"
            );
        }
        if let Some((name, default)) = self.attr {
            let _ = write!(
                text,
                "attr.list={name}\nattr_{name}.type=float\nattr_{name}.paramType=optional\nattr_{name}.defaultValue={default}\n"
            );
        }
        let _ = write!(
            text,
            "opFile.value={0}\nopInterface.value={0}\ndeterministic.flag={1}\ndynamicCompileStatic.flag=true\n",
            self.file, self.deterministic
        );
        text
    }

    /// Its entry in `aic-<unit>-ops-info.json`.
    pub(super) fn info(&self, rows: &[Row]) -> Value {
        let mut fields = Map::new();
        let formats = rows.iter().map(|(_, format)| *format).collect::<Vec<_>>().join(",");
        for (side, at, name) in self.numbered() {
            let port = json!({"name": name, "paramType": "required", "dtype": self.dtypes(name, rows), "format": formats,
                "unknownshape_format": formats, "shape": "all"});
            fields.insert(format!("{side}{at}"), port);
        }
        if let Some((name, default)) = self.attr {
            fields.insert("attr".to_owned(), json!({"list": name}));
            let attr =
                json!({"paramType": "optional", "type": "float", "defaultValue": default, "value": "all"});
            fields.insert(format!("attr_{name}"), attr);
        }
        for (key, value) in [("opFile", self.file), ("opInterface", self.file)] {
            fields.insert(key.to_owned(), json!({"value": value}));
        }
        fields.insert("dynamicCompileStatic".to_owned(), json!({"flag": "true"}));
        Value::Object(fields)
    }

    fn numbered(&self) -> impl Iterator<Item = (&'static str, usize, &'static str)> {
        let inputs = self.inputs.len();
        self.ports().enumerate().map(move |(at, (side, name))| (side, if at < inputs { at } else { 0 }, name))
    }
}

/// The source of the host library that describes tiling data.
pub(super) fn library_source(operators: &[Operator]) -> String {
    let mut cases = String::new();
    for operator in operators {
        if let Some(text) = operator.library_struct {
            let _ = writeln!(cases, "    if (is(op, \"{}\")) return \"{text}\";", operator.op_type);
        }
    }
    format!(
        "static int is(const char *a, const char *b) {{ while (*a && *a == *b) a++, b++; return *a == *b; }}\n\
         __attribute__((section(\".ascendc.api.version\"), used)) static const char version[] = \"90100000\";\n\
         const char *OpTilingStruct(const char *op)\n{{\n{cases}    return 0;\n}}\n"
    )
}
