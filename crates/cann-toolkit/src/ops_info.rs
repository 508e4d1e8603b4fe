//! The operator information: what each operator takes, from `aic-<family>-ops-info.json`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use opkeep_descriptor::{AttrValue, Float};
use opkeep_digest::Digest;
use opkeep_digest::FileDigests;
use opkeep_fs::Fs;
use serde_json::{Map, Value};

use crate::disk::files;
use crate::error::ToolkitError;
use crate::find::Toolkit;
use crate::platform::Soc;

/// The operator information for one family of chips.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpsInfo {
    /// The files that were read, in the order in which they count.
    pub files: Vec<PathBuf>,
    /// Every file that was looked for, and what was in it; None if it was not there.
    looked: Vec<(PathBuf, Option<Digest>)>,
    /// By operator type; what comes first in the order hides what comes later.
    ops: BTreeMap<String, OpInfo>,
}

/// The information about one operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpInfo {
    /// The package of custom operators that says so; None for built-in ones.
    pub vendor: Option<String>,
    /// The name of its module, without `.py`, if it is said (`opFile`).
    pub file: Option<String>,
    /// The name of its function, if it is said (`opInterface`).
    pub function: Option<String>,
    /// Its inputs, in order.
    pub inputs: Vec<PortInfo>,
    /// Its outputs, in order.
    pub outputs: Vec<PortInfo>,
    /// Its attributes, in the order in which the function takes them.
    pub attrs: Vec<AttrInfo>,
    /// The kind of core, if it is said: `AiCore`, `VectorCore`.
    pub core_type: Option<String>,
    /// How it is fused, or that any format will do (`op.pattern`): `formatAgnostic`, `broadcast`, ...
    pub pattern: Option<String>,
    /// Flags that are `true`: `dynamicFormat`, `dynamicCompileStatic`, `dynamicShapeSupport`, ...
    pub flags: Vec<String>,
}

/// An input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// Its name.
    pub name: String,
    /// Whether it must be there.
    pub kind: PortKind,
    /// Element types, one for each combination that the operator takes; empty if it has to be asked.
    pub dtypes: Vec<String>,
    /// Formats, one for each combination; empty if it has to be asked, or any will do.
    pub formats: Vec<String>,
    /// Formats for shapes that are not known.
    pub unknown_shape_formats: Vec<String>,
    /// `delay`, `optional`, ... for inputs whose value counts (`valueDepend`).
    pub value_depend: Option<String>,
}

/// How often a port occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// Once.
    Required,
    /// Once or not at all.
    Optional,
    /// As often as one likes.
    Dynamic,
}

/// An attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttrInfo {
    /// Its name.
    pub name: String,
    /// Its type, as the file spells it: `int`, `listInt`, `str`.
    pub kind: String,
    /// Whether it must be given.
    pub is_required: bool,
    /// Its default value, as the file spells it.
    pub default: Option<String>,
    /// The values that it may have, as the file spells them; `all`.
    pub values: String,
}

impl OpsInfo {
    /// Reads what there is for a chip: packages of custom operators in their order, then the built-in operators.
    ///
    /// # Errors
    /// There is no built-in operator information for the family; a file cannot be read, or is not as it should be.
    pub fn read(toolkit: &Toolkit, soc: &Soc) -> Result<Self, ToolkitError> {
        let family = soc.family();
        let file = |tbe: &Path| tbe.join(format!("config/{family}/aic-{family}-ops-info.json"));
        let mut all = Self::default();
        for vendor in &toolkit.vendors {
            // One that has nothing for the chip leaves the file out.
            let path = file(&vendor.tbe);
            match Fs::new().is_file(&path) {
                true => all.add(&path, Some(&vendor.name))?,
                false => all.looked.push((path, None)),
            }
        }
        all.add(&file(&toolkit.tbe), None)?;
        Ok(all)
    }

    /// Whether its files are still what was read.
    pub fn is_current(&self, files: &dyn FileDigests) -> bool {
        self.looked.iter().all(|(path, read)| match read {
            Some(read) => files.digest(path).is_ok_and(|digest| digest == *read),
            None => !Fs::new().is_file(path),
        })
    }

    /// The information about one operator.
    pub fn get(&self, op_type: &str) -> Option<&OpInfo> {
        self.ops.get(op_type)
    }

    /// All operators, by type.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &OpInfo)> {
        self.ops.iter().map(|(op_type, info)| (op_type.as_str(), info))
    }

    fn add(&mut self, path: &Path, vendor: Option<&str>) -> Result<(), ToolkitError> {
        let text = files::read_text(path)?;
        let ops = parse(path, &text)?;
        self.looked.push((path.to_owned(), Some(Digest::of(text.as_bytes()))));
        for (op_type, info) in ops {
            self.ops.entry(op_type).or_insert(OpInfo { vendor: vendor.map(str::to_owned), ..info });
        }
        self.files.push(path.to_owned());
        Ok(())
    }
}

impl AttrInfo {
    /// Its default value; None if the file has none, or one of another type.
    pub fn default_value(&self) -> Option<AttrValue> {
        let text = self.default.as_deref()?;
        if self.kind == "str" {
            return Some(AttrValue::Str(text.to_owned()));
        }
        // Truth values are spelt as Python does, here and there.
        let spelt = text.trim().replace("True", "true").replace("False", "false");
        let value = serde_json::from_str(&spelt).ok()?;
        let mut element = self.kind.as_str();
        let mut depth = 0;
        while let Some(inner) = element.strip_prefix("list").or(element.strip_prefix("List")) {
            (element, depth) = (inner, depth + 1);
        }
        typed(&value, &element.to_ascii_lowercase(), depth)
    }
}

/// `value` as lists in lists, `depth` deep, of such elements.
fn typed(value: &Value, element: &str, depth: usize) -> Option<AttrValue> {
    if depth > 0 {
        let items = value.as_array()?.iter().map(|item| typed(item, element, depth - 1));
        return items.collect::<Option<_>>().map(AttrValue::List);
    }
    match element {
        "int" => value.as_i64().map(AttrValue::Int),
        "float" => value.as_f64().map(|number| AttrValue::Float(Float::new(number))),
        "bool" => value.as_bool().map(AttrValue::Bool),
        "str" => value.as_str().map(|text| AttrValue::Str(text.to_owned())),
        // A type that is new: what it looks like.
        _ => ["bool", "int", "float", "str"].into_iter().find_map(|known| typed(value, known, 0)),
    }
}

impl OpInfo {
    /// Whether a flag is `true`.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    /// Whether there is nothing to compile: `opFile` is `Null`.
    pub fn is_null(&self) -> bool {
        self.file.as_deref().is_some_and(|file| file.eq_ignore_ascii_case("null"))
    }

    /// Whether the operator has to be asked which element types and formats it takes.
    pub fn must_be_asked(&self) -> bool {
        self.has("dynamicFormat")
    }

    /// Whether the module for unknown shapes compiles known ones too.
    pub fn compiles_static_by_dynamic(&self) -> bool {
        self.has("dynamicCompileStatic")
    }
}

fn parse(path: &Path, text: &str) -> Result<BTreeMap<String, OpInfo>, ToolkitError> {
    let file: Value = serde_json::from_str(text).map_err(|error| {
        let place = format!("line {} column {}", error.line(), error.column());
        ToolkitError::malformed(path, place, format!("it is no JSON: {error}"))
    })?;
    let Value::Object(file) = file else {
        return Err(ToolkitError::malformed(
            path,
            "as a whole",
            "expected an object with a field for each operator",
        ));
    };
    let op = |(op_type, fields): (String, Value)| {
        let reader = Reader { path, op_type: &op_type };
        let info = reader.op(&fields)?;
        Ok((op_type, info))
    };
    let ops: Vec<_> = file.into_iter().map(op).collect::<Result<_, _>>()?;
    Ok(opkeep_order::map(ops))
}

/// Reads one operator.
struct Reader<'a> {
    path: &'a Path,
    op_type: &'a str,
}

type Fields = Map<String, Value>;

impl Reader<'_> {
    fn op(&self, fields: &Value) -> Result<OpInfo, ToolkitError> {
        let fields = self.object("", fields)?;
        let value = |name: &str| self.sub_text(fields, name, "value");
        Ok(OpInfo {
            vendor: None,
            file: value("opFile")?,
            function: value("opInterface")?,
            inputs: self.ports(fields, "input")?,
            outputs: self.ports(fields, "output")?,
            attrs: self.attrs(fields)?,
            core_type: value("coreType")?,
            pattern: self.sub_text(fields, "op", "pattern")?,
            flags: self.flags(fields)?,
        })
    }

    /// `input0`, `input1`, ... in the order of their numbers.
    fn ports(&self, fields: &Fields, side: &str) -> Result<Vec<PortInfo>, ToolkitError> {
        let number = |name: &String| name.strip_prefix(side)?.parse::<u32>().ok();
        let mut ports: Vec<(u32, &String, &Value)> =
            fields.iter().filter_map(|(name, value)| Some((number(name)?, name, value))).collect();
        opkeep_order::by_key(&mut ports, |(number, ..)| *number);
        ports.into_iter().map(|(_, name, value)| self.port(name, self.object(name, value)?)).collect()
    }

    fn port(&self, field: &str, port: &Fields) -> Result<PortInfo, ToolkitError> {
        let list = |name: &str| Ok(words(self.text(port, field, name)?.unwrap_or_default()));
        let kind = match self.needed(port, field, "paramType")? {
            "required" => PortKind::Required,
            "optional" => PortKind::Optional,
            "dynamic" => PortKind::Dynamic,
            other => {
                let expected = "expected `required`, `optional` or `dynamic`";
                return Err(self.error(field, format!("`paramType` is `{other}`, {expected}")));
            }
        };
        Ok(PortInfo {
            name: self.needed(port, field, "name")?.to_owned(),
            kind,
            dtypes: list("dtype")?,
            formats: list("format")?,
            unknown_shape_formats: list("unknownshape_format")?,
            value_depend: self.text(port, field, "valueDepend")?.map(str::to_owned),
        })
    }

    /// Those that `attr.list` names, in its order.
    fn attrs(&self, fields: &Fields) -> Result<Vec<AttrInfo>, ToolkitError> {
        let names = self.sub_text(fields, "attr", "list")?.unwrap_or_default();
        let attr = |name: String| {
            let field = format!("attr_{name}");
            let value = fields.get(&field).ok_or_else(|| {
                self.error(&field, "`attr.list` names the attribute, and nothing says what it is".to_owned())
            })?;
            let attr = self.object(&field, value)?;
            let text = |key: &str| Ok(self.text(attr, &field, key)?.map(str::to_owned));
            Ok(AttrInfo {
                kind: self.needed(attr, &field, "type")?.to_owned(),
                is_required: self.text(attr, &field, "paramType")? == Some("required"),
                default: text("defaultValue")?,
                values: text("value")?.unwrap_or_else(|| "all".to_owned()),
                name,
            })
        };
        words(&names).into_iter().map(attr).collect()
    }

    /// Names of objects with `"flag": "true"`.
    fn flags(&self, fields: &Fields) -> Result<Vec<String>, ToolkitError> {
        let mut flags = Vec::new();
        for (name, value) in fields {
            if let Some(object) = value.as_object()
                && self.text(object, name, "flag")?.is_some_and(|flag| flag.eq_ignore_ascii_case("true"))
            {
                flags.push(name.clone());
            }
        }
        Ok(flags)
    }

    fn object<'v>(&self, field: &str, value: &'v Value) -> Result<&'v Fields, ToolkitError> {
        value.as_object().ok_or_else(|| self.error(field, "expected an object".to_owned()))
    }

    fn text<'v>(&self, object: &'v Fields, field: &str, name: &str) -> Result<Option<&'v str>, ToolkitError> {
        match object.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.error(field, format!("`{name}` is `{other}`, expected a text"))),
        }
    }

    fn needed<'v>(&self, object: &'v Fields, field: &str, name: &str) -> Result<&'v str, ToolkitError> {
        let text = self.text(object, field, name)?.filter(|text| !text.is_empty());
        text.ok_or_else(|| self.error(field, format!("`{name}` is missing")))
    }

    /// `fields.object.name`, if both are there.
    fn sub_text(&self, fields: &Fields, object: &str, name: &str) -> Result<Option<String>, ToolkitError> {
        let Some(value) = fields.get(object) else { return Ok(None) };
        Ok(self.text(self.object(object, value)?, object, name)?.map(str::to_owned))
    }

    fn error(&self, field: &str, problem: String) -> ToolkitError {
        let dot = if field.is_empty() { "" } else { "." };
        ToolkitError::malformed(self.path, format!("operator {}{dot}{field}", self.op_type), problem)
    }
}

/// `float16,float32`.
fn words(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQUARE: &str = r#"{"Square":{
        "attr":{"list":"axes,keep"},
        "attr_axes":{"defaultValue":"[-1]","paramType":"optional","type":"listInt","value":"all"},
        "attr_keep":{"paramType":"required","type":"bool","value":"true,false"},
        "input0":{"dtype":"float16, float","format":"ND,ND","name":"x","paramType":"required","shape":"all"},
        "input10":{"name":"late","paramType":"optional"},
        "input2":{"name":"early","paramType":"dynamic"},
        "output0":{"dtype":"float16,float","name":"y","paramType":"required"},
        "dynamicFormat":{"flag":"true"},"dynamicCompileStatic":{"flag":"false"},
        "opFile":{"value":"square"},"op":{"pattern":"broadcast"},"coreType":{"value":"AiCore"}}}"#;

    #[test]
    fn an_operator_is_read_whole() {
        let ops = parse(Path::new("x.json"), SQUARE).unwrap();
        let square = &ops["Square"];
        let names: Vec<&str> = square.inputs.iter().map(|port| port.name.as_str()).collect();
        assert_eq!(names, ["x", "early", "late"]);
        assert_eq!(square.inputs[0].dtypes, ["float16", "float"]);
        assert_eq!(square.inputs[1].kind, PortKind::Dynamic);
        assert!(square.outputs[0].formats.is_empty());
        let attrs: Vec<(&str, bool, Option<&str>)> = square
            .attrs
            .iter()
            .map(|attr| (attr.name.as_str(), attr.is_required, attr.default.as_deref()))
            .collect();
        assert_eq!(attrs, [("axes", false, Some("[-1]")), ("keep", true, None)]);
        assert!(square.must_be_asked() && !square.compiles_static_by_dynamic() && !square.is_null());
        assert_eq!(
            (square.file.as_deref(), square.pattern.as_deref(), square.core_type.as_deref()),
            (Some("square"), Some("broadcast"), Some("AiCore"))
        );
    }

    #[test]
    fn defaults_are_of_their_type() {
        let value = |kind: &str, default: &str| {
            let (name, kind) = ("a".to_owned(), kind.to_owned());
            let default = Some(default.to_owned());
            AttrInfo { name, kind, is_required: false, default, values: "all".to_owned() }.default_value()
        };
        let ints = |values: &[i64]| Some(AttrValue::ints(values));
        assert_eq!(value("int", " 7"), Some(AttrValue::Int(7)));
        assert_eq!(value("float", "1"), Some(AttrValue::Float(Float::new(1.0))));
        assert_eq!(value("bool", "True"), Some(AttrValue::Bool(true)));
        assert_eq!(value("str", "[1]"), Some(AttrValue::Str("[1]".to_owned())));
        assert_eq!(value("listInt", "[0, -1]"), ints(&[0, -1]));
        assert_eq!(value("listBool", "[False]"), Some(AttrValue::List(vec![AttrValue::Bool(false)])));
        assert_eq!(
            value("listListInt", "[[1], []]"),
            Some(AttrValue::List(vec![ints(&[1]).unwrap(), ints(&[]).unwrap()]))
        );
        assert_eq!(value("listStr", "[\"a\"]"), Some(AttrValue::List(vec![AttrValue::Str("a".to_owned())])));
        assert_eq!(value("of a kind to come", "3"), Some(AttrValue::Int(3)));
        for (kind, default) in
            [("int", "1.5"), ("int", "\"1\""), ("listInt", "1"), ("bool", "1"), ("int", "")]
        {
            assert_eq!(value(kind, default), None, "{kind} {default}");
        }
    }

    #[test]
    fn errors_name_their_place() {
        for (from, to, says) in [
            ("}}}", "}}", "line 10 column"),
            (
                "\"paramType\":\"dynamic\"",
                "\"paramType\":\"often\"",
                "operator Square.input2: `paramType` is `often`",
            ),
            ("\"name\":\"x\",", "", "operator Square.input0: `name` is missing"),
            ("axes,keep", "axes,keep,more", "operator Square.attr_more"),
            ("{\"value\":\"square\"}", "7", "operator Square.opFile: expected an object"),
            ("{\"value\":\"square\"}", "{\"value\":7}", "`value` is `7`, expected a text"),
        ] {
            let text = SQUARE.replace(from, to);
            assert_ne!(text, SQUARE);
            let error = parse(Path::new("x.json"), &text).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("x.json"), "{error}");
        }
        assert!(parse(Path::new("x.json"), "[]").unwrap_err().to_string().contains("as a whole"));
    }
}
