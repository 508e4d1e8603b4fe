//! The `.json` of a kernel, as the compilers write it.

use opkeep_cann_meta::Magic;
use opkeep_digest::Digest;
use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value, json};

use super::chip::{Chip, Cores};
use super::kernel::{Argument, Kernel};

/// Fields in an order of their own.
pub(super) struct Fields(pub(super) Vec<(&'static str, Value)>);

impl Serialize for Fields {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Fields {
    /// As packages have them: indented by one space.
    pub(super) fn packed(&self) -> Vec<u8> {
        text(self, b" ")
    }
}

/// As TBE writes them: sorted, indented by four.
pub(super) fn sorted(fields: &Map<String, Value>) -> Vec<u8> {
    text(fields, b"    ")
}

fn text(value: &impl Serialize, indent: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    #[expect(clippy::panic, reason = "a test that asks for the impossible has to be mended")]
    if let Err(error) =
        value.serialize(&mut Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(indent)))
    {
        panic!("{error}");
    }
    text
}

/// The description of `kernel`, whose object is `object`.
pub(super) fn json(kernel: &Kernel, object: &[u8]) -> Vec<u8> {
    let sha256 = Digest::of(object).to_string();
    if kernel.keys.is_empty() { static_json(kernel, sha256) } else { dynamic_json(kernel, sha256) }
}

/// Of a kernel for one shape, by TBE.
fn static_json(kernel: &Kernel, sha256: String) -> Vec<u8> {
    let tensors = kernel.arguments.iter().filter(|argument| argument.is_tensor());
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    set("batchBindOnly", json!(1));
    set("binFileName", json!(kernel.file_name));
    set("binFileSuffix", json!(".o"));
    set("blockDim", json!(1));
    set("kernelName", json!(kernel.kernel_names()[0]));
    set("magic", json!(kernel.written_magic().name()));
    set("opParaSize", json!(0));
    set("parameters", tensors.map(|_| json!(0)).collect());
    set("sha256", json!(sha256));
    sorted(&fields)
}

/// Of a kernel that a tiling function picks at launch.
fn dynamic_json(kernel: &Kernel, sha256: String) -> Vec<u8> {
    let is_workspace = |argument: &Argument| *argument == Argument::Workspace;
    let parameters =
        kernel.arguments.iter().filter(|argument| argument.is_tensor() || is_workspace(argument));
    let tiling = kernel.arguments.iter().find_map(|argument| match argument {
        Argument::Tiling(bytes) => Some(*bytes),
        _ => None,
    });
    let ratio = kernel.cores.ratio();
    let mut fields = vec![
        ("binFileName", json!(kernel.file_name)),
        ("binFileSuffix", json!(".o")),
        ("blockDim", json!(-1)),
        ("coreType", json!(kernel.core_type())),
    ];
    if kernel.chip.is_split() {
        fields.extend(kernel.old_core_type().map(|kind| ("core_type", json!(kind))));
        fields.push(("intercoreSync", json!(i32::from(ratio.is_some()))));
    }
    if kernel.chip == Chip::Ascend310P {
        fields.push(("globalworkspace_spec_workspace", json!({"size": 32, "type": 0})));
    }
    fields.extend([
        ("kernelName", json!(kernel.name)),
        ("magic", json!(kernel.written_magic().name())),
        ("memoryStamping", json!([])),
        ("opParaSize", json!(tiling.unwrap_or_default())),
        ("parameters", parameters.map(|_| Value::Null).collect()),
        ("sha256", json!(sha256)),
        ("workspace", json!({"num": 1, "size": [-1], "type": [0]})),
        ("kernelList", kernel.list()),
    ]);
    if let Some(ratio) = ratio {
        fields.push(("taskRation", json!(if kernel.ratio_in_list { "tilingKey" } else { &ratio })));
    }
    fields.extend([
        ("optionalInputMode", json!("gen_placeholder")),
        ("optionalOutputMode", json!("gen_placeholder")),
        ("supportSuperKernel", json!(1)),
        ("compileInfo", json!({})),
        ("supportInfo", support_info(kernel)),
        ("filePath", json!(format!("{}/bin/{}.json", kernel.chip.soc().to_lowercase(), kernel.file_name))),
    ]);
    Fields(fields).packed()
}

/// The chip for which the kernel was compiled.
fn support_info(kernel: &Kernel) -> Value {
    let tensor = |(index, name): (usize, &str)| {
        json!({"name": name, "index": index, "dtype": "float16", "format": "ND", "paramType": "required",
            "shape": [-2], "format_match_mode": "FormatAgnostic"})
    };
    let of = |kinds: fn(&Argument) -> bool, name: &'static str| -> Value {
        kernel
            .arguments
            .iter()
            .filter(|argument| kinds(argument))
            .map(|_| name)
            .enumerate()
            .map(tensor)
            .collect()
    };
    json!({
        "implMode": "high_performance",
        "int64Mode": false,
        "simplifiedKeyMode": 0,
        "simplifiedKey": [format!("{}/d=0,p=1/1,2/1,2", kernel.name), format!("{}/d=1,p=1/1,2/1,2", kernel.name)],
        "optionalInputMode": "gen_placeholder",
        "optionalOutputMode": "gen_placeholder",
        "staticKey": Digest::of(kernel.name.as_bytes()).to_string(),
        "inputs": of(|argument| matches!(argument, Argument::Input | Argument::InputList(_)), "x"),
        "outputs": of(|argument| *argument == Argument::Output, "y"),
        "opMode": "dynamic",
        "deterministic": "ignore",
    })
}

impl Kernel {
    fn written_magic(&self) -> Magic {
        self.magic.unwrap_or(match self.cores {
            Cores::Vector if self.chip.is_split() => Magic::ElfAivec,
            Cores::AiCore if self.chip.is_split() => Magic::ElfAicube,
            _ => Magic::Elf,
        })
    }

    const fn core_type(&self) -> &'static str {
        match self.cores {
            // AscendC's compiler of the 310B says so although there is only one kind of core.
            Cores::AiCore if matches!(self.chip, Chip::Ascend310B) => "VectorCore",
            Cores::AiCore => "AiCore",
            Cores::Vector => "VectorCore",
            Cores::Mix { .. } => "MIX",
        }
    }

    /// The same in older words, which mixed kernels do not have.
    const fn old_core_type(&self) -> Option<&'static str> {
        match self.cores {
            Cores::AiCore => Some("AIC"),
            Cores::Vector => Some("AIV"),
            Cores::Mix { .. } => None,
        }
    }

    fn list(&self) -> Value {
        let item = |(key, name): (&u64, String)| match self.cores.ratio() {
            Some(ratio) if self.ratio_in_list => json!({"tilingKey": key, "kernelType": "MIX_AIC",
                "crossCoreSync": 1, "taskRation": ratio, "kernelName": name}),
            _ => json!({ "kernelName": name }),
        };
        self.keys.iter().zip(self.kernel_names()).map(item).collect()
    }
}
