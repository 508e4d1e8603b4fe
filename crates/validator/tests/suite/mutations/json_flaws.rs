//! Flaws of the `.json`.

use opkeep_validator::Code;
use serde_json::{Map, Value, json};

use crate::mutations::table::{Change, Mutation, fields};

const STATIC: &str = "910A static";
const VECTOR: &str = "910B vector";
const CUBE: &str = "910B cube";
const MIX: &str = "910B mix 1:2";
const MANY: &str = "910B many mixed kernels";

type Fields = Map<String, Value>;

fn set(fields: &mut Fields, name: &str, value: impl Into<Value>) {
    fields.insert(name.to_owned(), value.into());
}

/// The items of `kernelList`.
fn list(fields: &mut Fields) -> &mut Vec<Value> {
    fields["kernelList"].as_array_mut().unwrap()
}

const fn text(name: &'static str, change: fn(&mut Vec<u8>)) -> Mutation {
    Mutation { of: VECTOR, name, codes: &[Code::JSON], change: Change::Text(change) }
}

pub(crate) const FIELDS: &[Mutation] = &[
    text("nothing at all", Vec::clear),
    text("a torn file", |json| json.truncate(json.len() / 2)),
    text("no last byte", |json| json.truncate(json.len() - 1)),
    text("half zeroes", |json| {
        let half = json.len() / 2;
        json[half..].fill(0);
    }),
    text("doubled", |json| json.extend(json.clone())),
    text("something behind it", |json| json.extend(b"}")),
    text("0xff", |json| json[20] = 0xff),
    Mutation {
        of: VECTOR,
        name: "a byte order mark",
        codes: &[],
        change: Change::Text(|json| json.splice(..0, *b"\xef\xbb\xbf").for_each(drop)),
    },
    Mutation {
        of: VECTOR,
        name: "a field that is there twice",
        codes: &[Code::REPEATED],
        change: Change::Text(|json| json.splice(1..1, *b"\"blockDim\": 8,").for_each(drop)),
    },
    fields(VECTOR, "no digest", &[Code::MISSING], |fields| drop(fields.remove("sha256"))),
    fields(VECTOR, "another digest", &[Code::SHA256], |fields| set(fields, "sha256", "0".repeat(64))),
    fields(VECTOR, "a digest in capitals", &[Code::FIELD], |fields| {
        let digest = fields["sha256"].as_str().unwrap().to_uppercase();
        set(fields, "sha256", digest);
    }),
    fields(VECTOR, "half a digest", &[Code::FIELD], |fields| set(fields, "sha256", "0".repeat(32))),
    fields(VECTOR, "an empty digest", &[Code::FIELD], |fields| set(fields, "sha256", "")),
    fields(VECTOR, "a digest that is a number", &[Code::FIELD], |fields| set(fields, "sha256", 7)),
    fields(VECTOR, "objSha256 of null", &[], |fields| set(fields, "objSha256", Value::Null)),
    fields(VECTOR, "a wrong digest, the right one in AKG's field", &[Code::SHA256], |fields| {
        let digest = fields.insert("sha256".into(), "0".repeat(64).into()).unwrap();
        set(fields, "objSha256", digest);
    }),
    fields(VECTOR, "no digest but in AKG's field", &[Code::MISSING], |fields| {
        let digest = fields.remove("sha256").unwrap();
        set(fields, "objSha256", digest);
    }),
    fields("AKG", "another digest", &[Code::NO_MAGIC, Code::SHA256], |fields| {
        set(fields, "sha256", "0".repeat(64));
    }),
    fields(
        "AKG",
        "a wrong digest, the right one in `objSha256`",
        &[Code::NO_MAGIC, Code::SHA256],
        |fields| {
            let digest = fields.insert("sha256".into(), "0".repeat(64).into()).unwrap();
            set(fields, "objSha256", digest);
        },
    ),
    fields(VECTOR, "no magic", &[Code::MISSING], |fields| drop(fields.remove("magic"))),
    fields("cpu", "no magic", &[Code::MISSING], |fields| drop(fields.remove("magic"))),
    fields(VECTOR, "an unknown magic", &[Code::FIELD], |fields| {
        set(fields, "magic", "RT_DEV_BINARY_MAGIC_ELF_AIQUANTUM");
    }),
    fields(VECTOR, "a magic that is a number", &[Code::FIELD], |fields| set(fields, "magic", 0x4155_4245)),
    fields(VECTOR, "the magic of a raw binary", &[Code::MAGIC], |fields| {
        set(fields, "magic", "RT_DEV_BINARY_MAGIC_PLAIN_AIVEC");
    }),
    fields(VECTOR, "the magic of AI CPUs", &[Code::MAGIC, Code::MAGIC_MISFIT], |fields| {
        set(fields, "magic", "RT_DEV_BINARY_MAGIC_ELF_AICPU");
    }),
    fields("AI CPU", "the magic of AI cores", &[Code::MAGIC], |fields| {
        set(fields, "magic", "RT_DEV_BINARY_MAGIC_ELF");
    }),
    fields("cpu", "the magic of vector cores", &[Code::MAGIC], |fields| {
        set(fields, "magic", "RT_DEV_BINARY_MAGIC_ELF_AIVEC");
    }),
    fields(VECTOR, "the magic of cube cores", &[Code::MAGIC_MISFIT, Code::ARCHITECTURE], |fields| {
        set(fields, "magic", "RT_DEV_BINARY_MAGIC_ELF_AICUBE");
    }),
    fields(CUBE, "the magic of vector cores", &[Code::MAGIC_MISFIT, Code::ARCHITECTURE], |fields| {
        set(fields, "magic", "RT_DEV_BINARY_MAGIC_ELF_AIVEC");
    }),
    fields(VECTOR, "other cores", &[Code::CORE_TYPES, Code::MAGIC_MISFIT, Code::KERNEL_TYPE], |fields| {
        set(fields, "coreType", "AiCore");
    }),
    fields(VECTOR, "other cores, old field", &[Code::CORE_TYPES], |fields| set(fields, "core_type", "AIC")),
    fields(VECTOR, "unknown cores", &[Code::UNKNOWN_CORE], |fields| {
        set(fields, "coreType", "QuantumCore");
        set(fields, "core_type", "AIQ");
    }),
    fields(VECTOR, "no cores", &[Code::LACKS_FIELD], |fields| {
        fields.remove("coreType");
        fields.remove("core_type");
    }),
    fields("950 vector", "no cores", &[Code::LACKS_FIELD], |fields| {
        fields.remove("coreType");
        fields.remove("core_type");
    }),
    fields(VECTOR, "cores, old field only", &[Code::MAY_LACK_FIELD], |fields| {
        fields.remove("coreType");
    }),
    fields("310P", "no cores", &[Code::MAY_LACK_FIELD], |fields| drop(fields.remove("coreType"))),
    fields(VECTOR, "no number of blocks", &[Code::LACKS_FIELD], |fields| drop(fields.remove("blockDim"))),
    fields(STATIC, "no number of blocks", &[Code::LACKS_FIELD], |fields| drop(fields.remove("blockDim"))),
    fields(VECTOR, "no workspace", &[Code::LACKS_FIELD], |fields| drop(fields.remove("workspace"))),
    fields("310B AscendC", "no workspace", &[Code::MAY_LACK_FIELD], |fields| {
        fields.remove("workspace");
    }),
    fields(VECTOR, "scratch memory that is no object", &[Code::FIELD], |fields| set(fields, "workspace", 7)),
    fields(VECTOR, "the magic of mixed kernels", &[Code::MAGIC_MISFIT], |fields| {
        set(fields, "magic", "RT_DEV_BINARY_MAGIC_ELF");
    }),
    fields("950 vector", "the magic of mixed kernels", &[Code::MAGIC_MISFIT], |fields| {
        set(fields, "magic", "RT_DEV_BINARY_MAGIC_ELF");
    }),
    fields(VECTOR, "a list and another name", &[Code::BASE_NAME], |fields| {
        set(fields, "kernelName", "Other");
    }),
    fields(VECTOR, "a list and no name", &[Code::BASE_NAME], |fields| drop(fields.remove("kernelName"))),
    fields(VECTOR, "a list and an empty name", &[Code::BASE_NAME], |fields| set(fields, "kernelName", "")),
    fields(VECTOR, "cores that are a number", &[Code::FIELD], |fields| set(fields, "coreType", 1)),
    fields(STATIC, "no kernel", &[Code::MISSING], |fields| drop(fields.remove("kernelName"))),
    fields(STATIC, "another kernel", &[Code::KERNEL], |fields| {
        set(fields, "kernelName", "square_12484080525657478220_2__kernel1");
    }),
    fields(STATIC, "a kernel that is a number", &[Code::FIELD], |fields| set(fields, "kernelName", 1)),
    fields(STATIC, "a kernel of another file", &[Code::KERNEL, Code::BIN_NAME], |fields| {
        set(fields, "kernelName", "add_1__kernel0");
    }),
    fields(VECTOR, "an empty list", &[Code::IGNORED_VALUE, Code::BY_KEY], |fields| list(fields).clear()),
    fields(STATIC, "an empty list", &[Code::IGNORED_VALUE], |fields| set(fields, "kernelList", json!([]))),
    fields(VECTOR, "an empty list and no name", &[Code::IGNORED_VALUE, Code::MISSING], |fields| {
        list(fields).clear();
        fields.remove("kernelName");
    }),
    fields(VECTOR, "no list", &[Code::BY_KEY], |fields| drop(fields.remove("kernelList"))),
    fields(VECTOR, "a list that is null", &[Code::BY_KEY], |fields| set(fields, "kernelList", Value::Null)),
    fields(MANY, "no list", &[Code::BY_KEY], |fields| {
        fields.remove("kernelList");
    }),
    fields("910B part, vector", "no list", &[Code::BY_KEY], |fields| drop(fields.remove("kernelList"))),
    fields(VECTOR, "no list, and an unknown name", &[Code::KERNEL, Code::BIN_NAME], |fields| {
        fields.remove("kernelList");
        set(fields, "kernelName", "ReshapeAndCache");
    }),
    fields("cpu", "the name without a key", &[Code::KERNEL], |fields| set(fields, "kernelName", "kernel")),
    fields(CUBE, "a kernel twice", &[Code::LISTED_TWICE], |fields| {
        let first = list(fields)[0].clone();
        list(fields).push(first);
    }),
    fields(VECTOR, "an object as list", &[Code::FIELD], |fields| set(fields, "kernelList", json!({}))),
    fields(VECTOR, "a list of names", &[Code::FIELD], |fields| set(fields, "kernelList", json!(["k"]))),
    fields(VECTOR, "a kernel without a name", &[Code::FIELD], |fields| {
        list(fields)[0] = json!({"tilingKey": 0})
    }),
    fields(CUBE, "a kernel too many", &[Code::KERNEL], |fields| {
        list(fields).push(json!({"kernelName": "MoeGroupedMatmul_3461_12"}));
    }),
    fields(CUBE, "a kernel too few", &[Code::UNLISTED], |fields| drop(list(fields).pop())),
    fields(CUBE, "a kernel by another name", &[Code::BASE_NAME, Code::KERNEL, Code::UNLISTED], |fields| {
        list(fields)[1]["kernelName"] = "moegroupedmatmul_3461_11".into();
    }),
    fields(MIX, "one side of a kernel", &[Code::UNLISTED], |fields| {
        list(fields)[0]["kernelName"] = "GroupedMatmul_1fb9_3_mix_aic".into();
    }),
    fields(MIX, "another ratio of cores", &[Code::TASK_RATIO], |fields| {
        list(fields)[0]["taskRation"] = "1:1".into()
    }),
    fields("910B mix 0:1, at the top", "another ratio of cores", &[Code::TASK_RATIO], |fields| {
        set(fields, "taskRation", "1:1");
    }),
    fields("910B mix 0:1, at the top", "a ratio of nothing", &[Code::TASK_RATIO], |fields| {
        set(fields, "taskRation", "0:0");
    }),
    // Compilers write other forms, too: only the lints know which reader accepts them.
    fields("910B mix 0:1, at the top", "a ratio in words", &[], |fields| {
        set(fields, "taskRation", "half");
    }),
    fields(MANY, "another key", &[Code::TILING_KEY], |fields| list(fields)[2]["tilingKey"] = 13.into()),
    fields(MANY, "a key in quotes", &[Code::FIELD], |fields| list(fields)[2]["tilingKey"] = "12".into()),
    fields(MANY, "a key below zero", &[Code::FIELD], |fields| list(fields)[2]["tilingKey"] = (-1).into()),
    fields(MANY, "half a key", &[Code::FIELD], |fields| list(fields)[2]["tilingKey"] = json!(1.5)),
    fields(MANY, "crossCoreSync of 0", &[], |fields| list(fields)[2]["crossCoreSync"] = 0.into()),
    fields(VECTOR, "a number of blocks below -1", &[Code::FIELD], |fields| set(fields, "blockDim", -2)),
    fields(VECTOR, "a number of blocks beyond 32 bits", &[Code::FIELD], |fields| {
        set(fields, "blockDim", 1_u64 << 32);
    }),
    fields(VECTOR, "half a block", &[Code::FIELD], |fields| set(fields, "blockDim", json!(1.5))),
    fields(VECTOR, "blocks in words", &[Code::FIELD], |fields| set(fields, "blockDim", "1")),
    fields(VECTOR, "a file in another directory", &[Code::UNSAFE_NAME, Code::BIN_NAME], |fields| {
        set(fields, "binFileName", "../k");
    }),
    fields(VECTOR, "a file named like a directory", &[Code::UNSAFE_NAME, Code::BIN_NAME], |fields| {
        set(fields, "binFileName", "..");
    }),
    fields(VECTOR, "an absolute path", &[Code::UNSAFE_NAME, Code::BIN_NAME], |fields| {
        set(fields, "binFileName", "/etc/passwd");
    }),
    fields(VECTOR, "another file", &[Code::BIN_NAME], |fields| set(fields, "binFileName", "Other")),
    fields(VECTOR, "a file without name", &[Code::IGNORED_VALUE], |fields| set(fields, "binFileName", "")),
    fields(VECTOR, "a long name", &[Code::BIN_NAME], |fields| set(fields, "binFileName", "k".repeat(253))),
    fields(VECTOR, "a name too long for a file", &[Code::UNSAFE_NAME, Code::BIN_NAME], |fields| {
        set(fields, "binFileName", "k".repeat(254));
    }),
    fields(VECTOR, "no file", &[], |fields| drop(fields.remove("binFileName"))),
    fields(VECTOR, "a file that is a number", &[Code::FIELD], |fields| set(fields, "binFileName", 7)),
    fields(VECTOR, "another suffix", &[Code::FIELD], |fields| set(fields, "binFileSuffix", ".exe")),
    fields(VECTOR, "a suffix that leads elsewhere", &[Code::UNSAFE_NAME], |fields| {
        set(fields, "binFileSuffix", ".o/../../x");
    }),
    fields(VECTOR, "tiling data of size -1", &[Code::IGNORED_VALUE], |fields| set(fields, "opParaSize", -1)),
    fields(VECTOR, "tiling data of null", &[], |fields| set(fields, "opParaSize", Value::Null)),
    fields(VECTOR, "blocks of null", &[Code::LACKS_FIELD], |fields| set(fields, "blockDim", Value::Null)),
    fields(VECTOR, "a list of no parts", &[], |fields| set(fields, "jsonList", json!([]))),
    // Having an object, it needs a digest.
    fields(VECTOR, "parts, but no digest", &[Code::MISSING], |fields| {
        fields.remove("sha256");
        set(fields, "jsonList", json!([{"coreType": "AIC", "jsonFileName": "k.json"}]));
    }),
    fields(VECTOR, "parameters that are an object", &[Code::FIELD], |fields| {
        set(fields, "parameters", json!({}))
    }),
    fields(VECTOR, "unknown fields", &[], |fields| {
        set(fields, "quantumCores", json!({"deep": [null, -1.5]}))
    }),
];
