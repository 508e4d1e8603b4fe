//! Generated objects resemble genuine ones, section by section. `OPKEEP_CORPUS` names the directory of the genuine
//! ones.
//!
//! Without it, every test here shows as ignored, never as passed.

#![expect(clippy::disallowed_methods, reason = "a test may read its corpus, and where it is")]

use std::path::{Path, PathBuf};

use goblin::elf::Elf;
use libtest_mimic::{Failed, Trial};
use opkeep_testkit::ascend::{Chip, Cores, Era, Kernel};
use opkeep_testkit::corpus;

/// A genuine object, and the settings for generating a similar one.
struct Twin {
    path: &'static str,
    chip: Chip,
    cores: Cores,
    keys: &'static [u64],
    era: Era,
    make: fn(Kernel) -> Kernel,
}

const fn twin(path: &'static str, chip: Chip, cores: Cores, keys: &'static [u64], era: Era) -> Twin {
    Twin { path, chip, cores, keys, era, make: |kernel| kernel }
}

const B: Chip = Chip::Ascend910B;
const ONE_TWO: Cores = Cores::Mix { cube: 1, vector: 2 };
const ONLY_VECTOR: Cores = Cores::Mix { cube: 0, vector: 1 };

const TWINS: [Twin; 9] = [
    twin(
        "cann/910b_cann91_aic_MoeGroupedMatmul_3461fb7c82f702c45a7dc8574ee64859",
        B,
        Cores::AiCore,
        &[10, 11],
        Era::Cann9,
    ),
    twin(
        "cann/910b_cann91_aiv_ReshapeAndCacheBnsd_69cf40a071c531b49b5be27bfaa4fab0",
        B,
        Cores::Vector,
        &[0],
        Era::Cann9,
    ),
    Twin {
        path: "cann/910b_cann91_aiv_ReshapeAndCacheBnsd_69cf40a071c531b49b5be27bfaa4fab0_relocatable",
        chip: B,
        cores: Cores::Vector,
        keys: &[0],
        era: Era::Cann9,
        make: Kernel::relocatable,
    },
    twin(
        "cann/910b_cann91_mix12_GroupedMatmulSwigluQuantV2_1fb9c50aafc2c5d1995ebe9c37504195",
        B,
        ONE_TWO,
        &[3],
        Era::Cann9,
    ),
    twin(
        "cann/910b_cann91_mixaiv01_ScatterNdUpdateV2_0e675ed9c31b6f8eb4fec80650b6492b",
        B,
        ONLY_VECTOR,
        &[11, 10, 21, 20, 30],
        Era::Cann9,
    ),
    twin(
        "cann/910b_cann91_mixaiv_TransposeKvCacheByBlock_f57d0192c8d2552ec56e02af54cfc504",
        B,
        ONLY_VECTOR,
        &[0, 1, 2, 3, 4],
        Era::Cann9,
    ),
    twin(
        "mindspore/wheel270-ascend/ascend310p/AllFinite_52f59e2a65d9b1bb002de35c2819754a",
        Chip::Ascend310P,
        Cores::AiCore,
        &[0],
        Era::Cann8Late,
    ),
    twin(
        "mindspore/wheel270-ascend/ascend910_93/AllFinite_52f59e2a65d9b1bb002de35c2819754a",
        Chip::Ascend910_93,
        Cores::Vector,
        &[0],
        Era::Cann8Late,
    ),
    Twin {
        path: "mindspore/wheel270-ascend/ascend910b/AddRmsNormDynamicQuant_cde61da2bd6fededcb1ba310a6ad16ee",
        chip: B,
        cores: Cores::Vector,
        keys: &[0, 1, 2, 3],
        era: Era::Cann8,
        make: Kernel::without_metadata,
    },
];

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |twin: Twin| match corpus::directory() {
        Some(root) => Trial::test(twin.path, move || compare(&root.join(twin.path), &twin)),
        None => corpus::absent(twin.path),
    };
    TWINS.into_iter().map(trial).collect()
}

fn compare(path: &Path, twin: &Twin) -> Result<(), Failed> {
    let mut file = PathBuf::from(path);
    file.as_mut_os_string().push(".o");
    let genuine = std::fs::read(file)?;
    let kernel = Kernel::new(twin.chip, "k").cores(twin.cores).keys(twin.keys).era(twin.era);
    let made = (twin.make)(kernel).build().object;
    let (genuine, made) = (described(&genuine)?, described(&made)?);
    if genuine == made {
        return Ok(());
    }
    let differs = |(genuine, made): &(&String, &String)| genuine != made;
    let first = genuine.iter().zip(&made).find(differs);
    Err(format!("{} and {} lines, of which first differ: {first:#?}", genuine.len(), made.len()).into())
}

/// The form of an object, without sizes, offsets, and individual names.
fn described(object: &[u8]) -> goblin::error::Result<Vec<String>> {
    let elf = Elf::parse(object)?;
    let header = &elf.header;
    let mut lines =
        vec![format!("{} {:#x} {:#x} {}", header.e_type, header.e_machine, header.e_flags, header.e_version)];
    lines.extend(elf.program_headers.iter().map(|header| {
        format!(
            "segment {:#x} {:#x} {:#x} at {:#x}",
            header.p_type,
            header.p_flags,
            header.p_align,
            header.p_vaddr & 0xfff
        )
    }));
    for section in elf.section_headers.iter().skip(1) {
        let name = common(&elf.shdr_strtab[section.sh_name]);
        // Constants, which not every kernel has.
        if name != ".rodata" {
            let (kind, flags, align) = (section.sh_type, section.sh_flags, section.sh_addralign);
            let place = section.sh_addr & 0xfff;
            lines.push(format!("{name} {kind:#x} {flags:#x} {align} {} at {place:#x}", section.sh_entsize));
        }
    }
    for symbol in elf.syms.iter().skip(1) {
        let name = common(&elf.strtab[symbol.st_name]);
        let section =
            elf.section_headers.get(symbol.st_shndx).map_or("-", |section| &elf.shdr_strtab[section.sh_name]);
        // Some kernels have several variables in reserved memory, all of the same form.
        if !section.starts_with(".bl") || name == "g_sysWorkspaceReserved" {
            let (info, other) = (symbol.st_info, symbol.st_other);
            lines.push(format!("symbol {name} {info:#x} {other} in {}", common(section)));
        }
    }
    Ok(lines)
}

/// A name without its operator-specific part.
fn common(name: &str) -> String {
    let side = ["_mix_aic", "_mix_aiv"].into_iter().find(|side| name.ends_with(side)).unwrap_or_default();
    match name {
        _ if name.starts_with(".ascend.meta.") => format!(".ascend.meta.K{side}"),
        _ if name.starts_with(".bl.uninit.") => ".bl.uninit.V".to_owned(),
        _ if name.starts_with(['.', '_']) || name.starts_with("g_") => name.to_owned(),
        _ if name.ends_with("__") => "K__".to_owned(),
        "" => String::new(),
        _ => format!("K{side}"),
    }
}
