//! One pair of each kind.

use opkeep_cann_meta::Magic;
use serde_json::json;

use super::{Argument, Chip, Cores, Era, Kernel, Library, Pair, describe::Fields, library};

/// A tiling key that does not fit into an `i64`; real ones are like this.
const LARGE_KEY: u64 = 10_000_000_000_000_000_000;

/// One pair of each kind, with its name.
pub fn zoo() -> Vec<(&'static str, Pair)> {
    let mix = Cores::Mix { cube: 1, vector: 2 };
    let only_vector = Cores::Mix { cube: 0, vector: 1 };
    let b = |name| Kernel::new(Chip::Ascend910B, name);
    let many = [0, 1, 12, LARGE_KEY];
    let arguments = [
        Argument::Input,
        Argument::InputList(2),
        Argument::Output,
        Argument::Output,
        Argument::Workspace,
        Argument::Tiling(296),
    ];
    let kernels = vec![
        ("910A static", Kernel::new(Chip::Ascend910, "square_12484080525657478220_2")),
        ("910A dynamic", Kernel::new(Chip::Ascend910, "te_square_5f0e").keys([0, 1])),
        ("310B AscendC", Kernel::new(Chip::Ascend310B, "AddCustom_1e04").keys([0, 1])),
        ("310P", Kernel::new(Chip::Ascend310P, "AllFinite_52f5")),
        ("910B vector", b("ReshapeAndCache_69cf")),
        ("910B vector, CANN 8", b("AddRmsNorm_4b60").era(Era::Cann8).keys([0, 1, 2])),
        ("910B vector, late CANN 8", b("AllFinite_52f5").era(Era::Cann8Late)),
        ("910B vector, CANN 8, no metadata", b("AddRmsNorm_cde6").era(Era::Cann8).without_metadata()),
        ("950 vector", Kernel::new(Chip::Ascend950, "AllFinite_6b5e")),
        ("910_93 vector", Kernel::new(Chip::Ascend910_93, "AllFinite_74e4")),
        ("910B cube", b("MoeGroupedMatmul_3461").cores(Cores::AiCore).keys([10, 11])),
        ("910B mix 1:2", b("GroupedMatmul_1fb9").cores(mix).keys([3]).arguments(arguments)),
        ("910B mix 0:1, in the list", b("TransposeKvCache_f57d").cores(only_vector).keys([0, 1])),
        ("910B mix 0:1, at the top", b("ScatterNdUpdate_0e67").cores(only_vector).keys([11, 10]).one_ratio()),
        ("910B many kernels", b("FlashAttention_77aa").keys(many)),
        ("910B many mixed kernels", b("MatmulLeakyRelu_0a1b").cores(mix).keys(many).function_entries()),
        ("910B part, vector", b("ReshapeAndCache_69cf").relocatable()),
        ("910B part, cube", b("MoeGroupedMatmul_3461").cores(Cores::AiCore).relocatable()),
        ("910B part, mix", b("MatmulLeakyRelu_0a1b").cores(mix).relocatable()),
        ("910B vector, long name", b(&format!("te_fused_{}", "add_mul_".repeat(30)))),
        ("deterministic twin", b("ReduceSum_90c2").file_name("ReduceSum_0b1d")),
    ];
    let mut pairs: Vec<_> = kernels.into_iter().map(|(kind, kernel)| (kind, kernel.build())).collect();
    pairs.push((
        "AI CPU",
        library(Library::AiCpu, "aicpu_kernels", &["RunCpuKernel", "RunCpuKernelWithBlock"]),
    ));
    let Split { parts: [cube, vector], .. } = split_mix("MatMulGelu_21d9");
    pairs.extend([("split mix, cube part", cube), ("split mix, vector part", vector)]);
    pairs
}

/// One vector kernel twice in one file, compiled for each of two keys.
pub fn fat_binary(name: &str) -> Pair {
    fat_binary_of(name, [Chip::Ascend910B; 2])
}

/// The same, with the objects compiled for these chips.
pub fn fat_binary_of(name: &str, chips: [Chip; 2]) -> Pair {
    const KEYS: [u64; 2] = [7, LARGE_KEY];
    let made = |chip, bytes| Kernel::new(chip, name).code_bytes(bytes).build();
    let (small, large) = (made(chips[0], 0x200), made(chips[1], 0x400));
    let table = 8 + 16 * KEYS.len();
    let offsets = [table, table + small.object.len()].map(|offset| offset as u64);
    let words = [KEYS.len() as u64].into_iter().chain(KEYS).chain(offsets);
    let object = words.flat_map(u64::to_le_bytes).chain(small.object.clone()).chain(large.object).collect();
    let item = |key: u64| json!({"kernelName": format!("{name}_0"), "configKey": key, "blockDim": 8, "workspaceSize": 0});
    small
        .with_object(|file| *file = object)
        .with_field("kernelList", KEYS.map(item).into_iter().collect::<serde_json::Value>())
}

/// A mixed kernel in two objects, as compilers made them before there were mixed objects.
#[derive(Clone, Debug)]
pub struct Split {
    /// The `.json` that names the other two. It has no object.
    pub master: Vec<u8>,
    /// The pairs for cube and for vector cores.
    pub parts: [Pair; 2],
}

/// The mixed kernel `name` in two objects.
pub fn split_mix(name: &str) -> Split {
    let part = |suffix: &str, cores, magic| {
        let kernel = Kernel::new(Chip::Ascend910B, &format!("{name}_{suffix}"));
        kernel.cores(cores).era(Era::Cann8).without_metadata().magic(magic).build()
    };
    let file =
        |core: &str, suffix: &str| json!({"coreType": core, "jsonFileName": format!("{name}_{suffix}.json")});
    Split {
        master: Fields(vec![("jsonList", json!([file("AIC", "mix_aic"), file("AIV", "mix_aiv")]))]).packed(),
        parts: [
            part("mix_aic", Cores::AiCore, Magic::FftsMixAic),
            part("mix_aiv", Cores::Vector, Magic::FftsMixAiv),
        ],
    }
}
