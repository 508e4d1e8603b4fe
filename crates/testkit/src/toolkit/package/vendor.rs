//! An installed package of operators, as builds of CANN 9.1 leave one: all of its files, with kernels of the stand-in compiler.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::super::disk;
use crate::ascend::{Argument, Chip, Cores, Kernel, Pair};

/// Units with the chips that their kernels are for.
const UNITS: [(&str, Chip); 3] = [
    ("ascend910b", Chip::Ascend910B),
    ("ascend910_93", Chip::Ascend910_93),
    ("ascend310p", Chip::Ascend310P),
];

/// An operator: type, file, inputs, cores.
struct Operator {
    op_type: &'static str,
    file: &'static str,
    inputs: &'static [&'static str],
    cores: Cores,
}

const OPERATORS: [Operator; 2] = [
    Operator { op_type: "AddCustom", file: "add_custom", inputs: &["x", "y"], cores: Cores::Vector },
    Operator {
        op_type: "FusedMatmul",
        file: "fused_matmul",
        inputs: &["a", "b"],
        cores: Cores::Mix { cube: 1, vector: 2 },
    },
];

/// Types of elements, with their numbers in simplified keys.
const DTYPES: [(&str, u32); 2] = [("float16", 1), ("float32", 0)];

/// A vendor's directory: kernels of two operators and two types for three families of chips, their indexes, operator
/// information and Python. Cube kernels for the 910B have relocatable twins.
#[derive(Clone, Debug)]
pub struct VendorPackage {
    vendor: PathBuf,
}

/// What the three indexes and the operator information of a unit get.
#[derive(Default)]
struct UnitIndexes {
    info: Map<String, Value>,
    binary_info: Map<String, Value>,
    relocatable_info: Map<String, Value>,
}

impl VendorPackage {
    /// Writes one as `vendor`.
    ///
    /// # Errors
    /// The directory cannot be written to.
    pub fn write(vendor: &Path) -> io::Result<Self> {
        let package = Self { vendor: vendor.to_owned() };
        for (unit, chip) in UNITS {
            package.write_unit(unit, chip)?;
        }
        for Operator { file, .. } in OPERATORS {
            let text = format!("def {file}(x, kernel_name):\n    pass\n");
            disk::write(&package.file(&format!("vendor_impl/dynamic/{file}.py")), text)?;
        }
        Ok(package)
    }

    /// The vendor's directory.
    pub fn path(&self) -> &Path {
        &self.vendor
    }

    /// A file below `op_impl/ai_core/tbe`.
    pub fn file(&self, path: &str) -> PathBuf {
        self.vendor.join("op_impl/ai_core/tbe").join(path)
    }

    /// The path of a kernel of `AddCustom` below `op_impl/ai_core/tbe`, without an extension.
    pub fn add(unit: &str, dtype: &str) -> String {
        format!("kernel/{unit}/add_custom/{}", Self::stem("AddCustom", dtype))
    }

    /// The name of a kernel: as those of builds, the same for all units.
    pub fn stem(op_type: &str, dtype: &str) -> String {
        format!("{op_type}_{:032x}", dtype.bytes().fold(7_u128, |sum, byte| sum * 31 + u128::from(byte)))
    }

    fn write_unit(&self, unit: &str, chip: Chip) -> io::Result<()> {
        let mut indexes = UnitIndexes::default();
        for operator in &OPERATORS {
            self.write_operator(unit, chip, operator, &mut indexes)?;
        }
        let UnitIndexes { info, binary_info, relocatable_info } = indexes;
        let config = format!("kernel/config/{unit}");
        let write = |path: String, content: Map<String, Value>| {
            disk::write(&self.file(&path), Value::Object(content).to_string())
        };
        write(format!("{config}/binary_info_config.json"), binary_info)?;
        if !relocatable_info.is_empty() {
            write(format!("{config}/relocatable_kernel_info_config.json"), relocatable_info)?;
        }
        write(format!("config/{unit}/aic-{unit}-ops-info.json"), info)
    }

    fn write_operator(
        &self,
        unit: &str,
        chip: Chip,
        operator: &Operator,
        indexes: &mut UnitIndexes,
    ) -> io::Result<()> {
        let Operator { op_type, file, inputs, cores } = *operator;
        let (mut entries, mut listed, mut listed_parts) = (Vec::new(), Vec::new(), Vec::new());
        for (dtype, code) in DTYPES {
            let support = support_info(operator, dtype, code);
            let has_part = chip == Chip::Ascend910B && cores != Cores::Vector;
            for is_part in std::iter::once(false).chain(has_part.then_some(true)) {
                let pair = pair(chip, cores, &Self::stem(op_type, dtype), is_part, inputs.len());
                let place = format!("{unit}/{file}/{}", pair.stem);
                let pair = pair
                    .with_field("supportInfo", support.clone())
                    .with_field("filePath", format!("{place}.json"));
                disk::write(&self.file(&format!("kernel/{place}.o")), &pair.object)?;
                disk::write(&self.file(&format!("kernel/{place}.json")), &pair.json)?;
                let list = if is_part { &mut listed_parts } else { &mut listed };
                list.push(json!({"coreType": core_number(&pair), "simplifiedKey": support["simplifiedKey"],
                    "binPath": format!("{place}.o"), "jsonPath": format!("{place}.json")}));
                if !is_part {
                    let mut entry = support.clone();
                    entry["binInfo"] = json!({"jsonFilePath": format!("{place}.json")});
                    entries.push(entry);
                }
            }
        }
        let index = json!({"binList": entries}).to_string();
        disk::write(&self.file(&format!("kernel/config/{unit}/{file}.json")), index)?;
        indexes.binary_info.insert(op_type.to_owned(), listed_item(inputs, listed));
        if !listed_parts.is_empty() {
            indexes.relocatable_info.insert(op_type.to_owned(), listed_item(inputs, listed_parts));
        }
        indexes.info.insert(op_type.to_owned(), info(operator));
        Ok(())
    }
}

fn support_info(operator: &Operator, dtype: &str, code: u32) -> Value {
    let Operator { op_type, inputs, .. } = operator;
    let ports = |names: &[&str]| -> Value {
        let port = |(at, name): (usize, &&str)| json!({"name": name, "index": at, "dtype": dtype, "format": "ND", "paramType": "required", "shape": [-2]});
        names.iter().enumerate().map(port).collect()
    };
    let codes = vec![format!("{code},2"); inputs.len() + 1].join("/");
    let keys: Vec<String> =
        [0, 1].iter().map(|repeats| format!("{op_type}/d={repeats},p=1/{codes}")).collect();
    json!({
        "implMode": "high_performance", "int64Mode": false, "simplifiedKeyMode": 0, "simplifiedKey": keys,
        "optionalInputMode": "gen_placeholder", "staticKey": "00", "inputs": ports(inputs), "outputs": ports(&["z"]),
        "attrs": [{"name": "alpha", "dtype": "float", "value": 1.0}], "opMode": "dynamic", "deterministic": "ignore",
    })
}

/// An operator's item in the index of all kernels.
fn listed_item(inputs: &[&str], list: Vec<Value>) -> Value {
    let ports = |names: &[&str]| -> Value {
        let port = |(at, name): (usize, &&str)| json!({"name": name, "index": at, "paramType": "required"});
        names.iter().enumerate().map(port).collect()
    };
    json!({"dynamicRankSupport": true, "simplifiedKeyMode": 0, "optionalInputMode": "gen_placeholder",
        "params": {"inputs": ports(inputs), "outputs": ports(&["z"]), "attrs": [{"name": "alpha"}]}, "binaryList": list})
}

/// An operator's item in the operator information.
fn info(operator: &Operator) -> Value {
    let Operator { file, inputs, .. } = operator;
    let port = |name: &str| json!({"name": name, "paramType": "required", "dtype": "float16,float32", "format": "ND,ND"});
    let mut info = json!({"opFile": {"value": file}, "opInterface": {"value": file}, "output0": port("z")});
    for (at, name) in inputs.iter().enumerate() {
        info[format!("input{at}")] = port(name);
    }
    info
}

/// The number of a kernel's kind of core in the index of all kernels.
fn core_number(pair: &Pair) -> i64 {
    let meta: Value = serde_json::from_slice(&pair.json).unwrap_or_default();
    match meta["coreType"].as_str() {
        Some("MIX") => 0,
        Some("AiCore") => 1,
        Some("VectorCore") => 2,
        _ => -1,
    }
}

fn pair(chip: Chip, cores: Cores, stem: &str, is_relocatable: bool, inputs: usize) -> Pair {
    let mut arguments = vec![Argument::Input; inputs];
    arguments.extend([Argument::Output, Argument::Workspace, Argument::Tiling(64)]);
    let cores = if chip.is_split() { cores } else { Cores::AiCore };
    if chip.is_split() && cores != Cores::Vector {
        arguments.insert(0, Argument::Ffts);
    }
    let kernel = Kernel::new(chip, stem).cores(cores).arguments(arguments).keys([1, 2]);
    if is_relocatable { kernel.relocatable().build() } else { kernel.build() }
}
