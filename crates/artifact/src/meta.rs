//! The kernel's `.json`, typed.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::Magic;

/// How many blocks a kernel is launched with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockDim {
    /// A fixed number of blocks.
    Fixed(u32),
    /// Decided at launch by the tiling function; `-1` in the file.
    Dynamic,
}

/// One kernel of a binary that holds several, an item of `kernelList`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelEntry {
    /// The kernel's symbol, without any `_mix_aic` or `_mix_aiv`.
    pub kernel_name: String,
    /// The tiling key; real ones exceed `i64::MAX`.
    pub tiling_key: Option<u64>,
    /// The item's other fields.
    pub extra: BTreeMap<String, Value>,
}

/// Scratch memory that a launch must provide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Bytes of each area; -1 is decided by tiling.
    pub size: Vec<i64>,
    /// Memory kind of each area, where stated (0 HBM, 1 L1, 2 L2).
    pub kind: Vec<i64>,
}

/// The `.json` that stands beside a kernel object.
///
/// Fields that this version gives no type stay in [`extra`](Self::extra), as they were.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct KernelMeta {
    /// `binFileName`: the object's file stem.
    pub bin_file_name: Option<String>,
    /// `binFileSuffix`: `.o`, or `.so`.
    pub bin_file_suffix: Option<String>,
    /// `blockDim`.
    pub block_dim: Option<BlockDim>,
    /// `kernelName`: the kernel's symbol, unless there is a `kernelList`.
    pub kernel_name: Option<String>,
    /// `kernelList`: the kernels of a binary that holds several.
    pub kernel_list: Option<Vec<KernelEntry>>,
    /// `magic`.
    pub magic: Option<Magic>,
    /// `sha256`: of the whole object file, lower-case hexadecimal.
    pub sha256: Option<String>,
    /// `opParaSize`: bytes of tiling data.
    pub op_para_size: Option<u64>,
    /// `parameters`: per argument, whether it must be cleared before the launch. Producers write null, numbers or
    /// objects.
    pub parameters: Option<Vec<Value>>,
    /// `workspace`.
    pub workspace: Option<Workspace>,
    /// `coreType`.
    pub core_type: Option<String>,
    /// Every other field.
    pub extra: BTreeMap<String, Value>,
}

/// Why bytes are not a kernel's `.json`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MetaError {
    /// Not JSON at all: torn, empty, too deep, not UTF-8.
    #[error(
        "not a kernel description: invalid JSON at line {line} column {column} of {bytes} bytes: {problem}; \
         the writer was probably interrupted, build the kernel again"
    )]
    Json {
        /// Bytes given.
        bytes: usize,
        /// Line of the problem, from 1; 0 if the bytes are not UTF-8.
        line: usize,
        /// Column of the problem, from 1.
        column: usize,
        /// What the JSON parser says.
        problem: String,
    },
    /// A field has another type or range than every producer gives it.
    #[error("field `{field}`: expected {expected}, found {found}")]
    Field {
        /// The field, such as `workspace.size[1]`.
        field: String,
        /// What may stand there.
        expected: &'static str,
        /// What stands there, cut to 80 characters.
        found: String,
    },
}

impl KernelMeta {
    /// Reads a `.json`.
    ///
    /// Takes what real producers write: `blockDim` -1, null parameters, tiling keys above `i64::MAX`, missing
    /// optional fields.
    ///
    /// # Errors
    /// [`MetaError`], naming the place.
    pub fn parse(bytes: &[u8]) -> Result<Self, MetaError> {
        let value: Value = serde_json::from_slice(bytes).map_err(|error| MetaError::Json {
            bytes: bytes.len(),
            line: error.line(),
            column: error.column(),
            problem: error.to_string(),
        })?;
        let Value::Object(mut map) = value else {
            return Err(wrong("(document)", "an object", &value));
        };
        Ok(Self {
            bin_file_name: take(&mut map, "binFileName", string)?,
            bin_file_suffix: take(&mut map, "binFileSuffix", string)?,
            block_dim: take(&mut map, "blockDim", block_dim)?,
            kernel_name: take(&mut map, "kernelName", string)?,
            kernel_list: take(&mut map, "kernelList", |at, value| list(at, value, kernel_entry))?,
            magic: take(&mut map, "magic", magic)?,
            sha256: take(&mut map, "sha256", string)?,
            op_para_size: take(&mut map, "opParaSize", unsigned)?,
            parameters: take(&mut map, "parameters", |at, value| list(at, value, parameter))?,
            workspace: take(&mut map, "workspace", workspace)?,
            core_type: take(&mut map, "coreType", string)?,
            extra: map.into_iter().collect(),
        })
    }

    /// The names that must be kernels of the object: those in `kernelList`, or `kernelName` where there is no list.
    pub fn entry_names(&self) -> Vec<&str> {
        match &self.kernel_list {
            Some(list) => list.iter().map(|entry| entry.kernel_name.as_str()).collect(),
            None => self.kernel_name.as_deref().into_iter().collect(),
        }
    }

    /// The `.json` as TBE formats it: sorted keys, four spaces, no newline at the end.
    pub fn to_json(&self) -> String {
        let Self {
            bin_file_name,
            bin_file_suffix,
            block_dim,
            kernel_name,
            kernel_list,
            magic,
            sha256,
            op_para_size,
            parameters,
            workspace,
            core_type,
            extra,
        } = self;
        let mut map: Map<String, Value> = extra.clone().into_iter().collect();
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                map.insert(key.to_owned(), value);
            }
        };
        put("binFileName", bin_file_name.clone().map(Value::from));
        put("binFileSuffix", bin_file_suffix.clone().map(Value::from));
        put(
            "blockDim",
            block_dim.map(|dim| match dim {
                BlockDim::Fixed(blocks) => Value::from(blocks),
                BlockDim::Dynamic => Value::from(-1),
            }),
        );
        put("kernelName", kernel_name.clone().map(Value::from));
        put("kernelList", kernel_list.as_ref().map(|list| list.iter().map(entry_value).collect()));
        put("magic", magic.map(|magic| Value::from(magic.name())));
        put("sha256", sha256.clone().map(Value::from));
        put("opParaSize", op_para_size.map(Value::from));
        put("parameters", parameters.clone().map(Value::from));
        put("workspace", workspace.as_ref().map(workspace_value));
        put("coreType", core_type.clone().map(Value::from));
        pretty(&Value::Object(map))
    }
}

/// Four-space JSON, the vendors' formatting.
fn pretty(value: &Value) -> String {
    let mut bytes = Vec::with_capacity(1024);
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let written = value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, formatter));
    debug_assert!(written.is_ok(), "writing JSON to memory");
    String::from_utf8(bytes).unwrap_or_default()
}

fn take<T>(
    map: &mut Map<String, Value>,
    key: &str,
    read: impl FnOnce(&str, Value) -> Result<T, MetaError>,
) -> Result<Option<T>, MetaError> {
    map.remove(key).map(|value| read(key, value)).transpose()
}

fn wrong(field: &str, expected: &'static str, found: &Value) -> MetaError {
    MetaError::Field {
        field: field.to_owned(),
        expected,
        found: found.to_string().chars().take(80).collect(),
    }
}

fn string(at: &str, value: Value) -> Result<String, MetaError> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(wrong(at, "a string", &other)),
    }
}

fn unsigned(at: &str, value: Value) -> Result<u64, MetaError> {
    value.as_u64().ok_or_else(|| wrong(at, "a whole number from 0 to 18446744073709551615", &value))
}

fn signed(at: &str, value: Value) -> Result<i64, MetaError> {
    value.as_i64().ok_or_else(|| wrong(at, "a whole number of 64 bits", &value))
}

fn block_dim(at: &str, value: Value) -> Result<BlockDim, MetaError> {
    match value.as_i64() {
        Some(-1) => Ok(BlockDim::Dynamic),
        Some(blocks @ 0..=65535) => Ok(BlockDim::Fixed(blocks as u32)),
        _ => Err(wrong(at, "a whole number from -1 to 65535", &value)),
    }
}

fn magic(at: &str, value: Value) -> Result<Magic, MetaError> {
    let known = value.as_str().and_then(Magic::from_name);
    known.ok_or_else(|| wrong(at, "one of the nine magic names, such as RT_DEV_BINARY_MAGIC_ELF", &value))
}

fn list<T>(
    at: &str,
    value: Value,
    read: impl Fn(&str, Value) -> Result<T, MetaError>,
) -> Result<Vec<T>, MetaError> {
    match value {
        Value::Array(items) => {
            items.into_iter().enumerate().map(|(i, item)| read(&format!("{at}[{i}]"), item)).collect()
        }
        other => Err(wrong(at, "a list", &other)),
    }
}

fn object(at: &str, value: Value) -> Result<Map<String, Value>, MetaError> {
    match value {
        Value::Object(map) => Ok(map),
        other => Err(wrong(at, "an object", &other)),
    }
}

fn parameter(at: &str, value: Value) -> Result<Value, MetaError> {
    match value {
        Value::Null | Value::Object(_) => Ok(value),
        Value::Number(ref number) if number.is_i64() || number.is_u64() => Ok(value),
        other => Err(wrong(at, "null, a whole number or an object", &other)),
    }
}

fn kernel_entry(at: &str, value: Value) -> Result<KernelEntry, MetaError> {
    let mut map = object(at, value)?;
    let name = map.remove("kernelName").unwrap_or(Value::Null);
    Ok(KernelEntry {
        kernel_name: string(&format!("{at}.kernelName"), name)?,
        tiling_key: map
            .remove("tilingKey")
            .map(|key| unsigned(&format!("{at}.tilingKey"), key))
            .transpose()?,
        extra: map.into_iter().collect(),
    })
}

fn entry_value(entry: &KernelEntry) -> Value {
    let KernelEntry { kernel_name, tiling_key, extra } = entry;
    let mut map: Map<String, Value> = extra.clone().into_iter().collect();
    map.insert("kernelName".into(), kernel_name.as_str().into());
    if let Some(key) = tiling_key {
        map.insert("tilingKey".into(), (*key).into());
    }
    Value::Object(map)
}

fn workspace(at: &str, value: Value) -> Result<Workspace, MetaError> {
    let mut map = object(at, value)?;
    let numbers = |key: &str, value: Option<Value>| match value {
        None => Ok(Vec::new()),
        Some(value) => list(&format!("{at}.{key}"), value, signed),
    };
    let size = numbers("size", map.remove("size"))?;
    let kind = numbers("type", map.remove("type"))?;
    if let Some(num) = map.remove("num")
        && num.as_u64() != Some(size.len() as u64)
    {
        return Err(wrong(&format!("{at}.num"), "the number of items in `workspace.size`", &num));
    }
    Ok(Workspace { size, kind })
}

fn workspace_value(workspace: &Workspace) -> Value {
    let Workspace { size, kind } = workspace;
    let mut map = Map::new();
    map.insert("num".into(), size.len().into());
    map.insert("size".into(), size.clone().into());
    if !kind.is_empty() {
        map.insert("type".into(), kind.clone().into());
    }
    Value::Object(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VENDOR: &str = include_str!("../../../fixtures/mindspore/square_12484080525657478220_2.json");

    #[test]
    fn vendor_example_comes_back_byte_for_byte() {
        let meta = KernelMeta::parse(VENDOR.as_bytes()).unwrap();
        assert_eq!(meta.block_dim, Some(BlockDim::Fixed(1)));
        assert_eq!(meta.entry_names(), ["square_12484080525657478220_2__kernel0"]);
        assert_eq!(meta.extra["batchBindOnly"], 1);
        assert_eq!(meta.to_json(), VENDOR.trim_end());
    }

    #[test]
    fn producers_habits_are_taken() {
        let text = r#"{"blockDim": -1, "parameters": [null, 0, {"dtype": "float32", "init_value": 0}],
            "kernelList": [{"kernelName": "a_1", "tilingKey": 10000000000000000000, "kernelType": "MIX_AIC"}],
            "kernelName": "a", "workspace": {"num": 1, "size": [-1], "type": [0]}}"#;
        let meta = KernelMeta::parse(text.as_bytes()).unwrap();
        assert_eq!(meta.block_dim, Some(BlockDim::Dynamic));
        assert_eq!(meta.entry_names(), ["a_1"]);
        assert_eq!(meta.kernel_list.as_ref().unwrap()[0].tiling_key, Some(10_000_000_000_000_000_000));
        assert_eq!(KernelMeta::parse(meta.to_json().as_bytes()).unwrap(), meta);
    }

    #[test]
    fn wrong_types_are_named() {
        for (text, field) in [
            (r#"{"magic": "RT_DEV_BINARY_MAGIC"}"#, "magic"),
            (r#"{"blockDim": 65536}"#, "blockDim"),
            (r#"{"blockDim": "1"}"#, "blockDim"),
            (r#"{"sha256": 1}"#, "sha256"),
            (r#"{"kernelList": [{"tilingKey": 1}]}"#, "kernelList[0].kernelName"),
            (r#"{"kernelList": [{"kernelName": "a", "tilingKey": -1}]}"#, "kernelList[0].tilingKey"),
            (r#"{"workspace": {"num": 2, "size": [1]}}"#, "workspace.num"),
            (r#"{"parameters": ["x"]}"#, "parameters[0]"),
            ("[]", "(document)"),
        ] {
            match KernelMeta::parse(text.as_bytes()) {
                Err(MetaError::Field { field: found, .. }) => assert_eq!(found, field, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn every_truncation_is_a_typed_refusal() {
        let bytes = VENDOR.trim_end().as_bytes();
        for end in 0..bytes.len() {
            assert!(matches!(KernelMeta::parse(&bytes[..end]), Err(MetaError::Json { .. })), "{end}");
        }
        assert!(matches!(KernelMeta::parse(b"\xff\xfe{}"), Err(MetaError::Json { .. })));
        assert!(matches!(KernelMeta::parse("[".repeat(100_000).as_bytes()), Err(MetaError::Json { .. })));
    }
}
