//! Chips, as `platform_config/<SoC version>.ini` describes them.

/// A chip of the platform configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Soc {
    /// Its full name: `Ascend910B1`.
    pub name: &'static str,
    /// The short name of its family: `Ascend910B`.
    pub short: &'static str,
    /// The architecture that the compiler takes for cube cores, or for whole cores.
    pub cube_arch: &'static str,
    /// The same for vector cores.
    pub vector_arch: &'static str,
    /// `cube_vector_combine`, where the file says it.
    pub combine: Option<&'static str>,
    /// AI cores, or cube cores where they are apart.
    pub cores: u16,
    /// Vector cores, where they are apart.
    pub vector_cores: u16,
}

const SPLIT: (&str, &str, Option<&str>) = ("dav-c220-cube", "dav-c220-vec", Some("split"));

const fn whole(name: &'static str, short: &'static str, arch: &'static str, cores: u16) -> Soc {
    Soc { name, short, cube_arch: arch, vector_arch: arch, combine: None, cores, vector_cores: 0 }
}

const fn split(name: &'static str, short: &'static str, cores: u16) -> Soc {
    let (cube_arch, vector_arch, combine) = SPLIT;
    Soc { name, short, cube_arch, vector_arch, combine, cores, vector_cores: cores * 2 }
}

const fn fused(name: &'static str, short: &'static str, arch: &'static str, cores: u16) -> Soc {
    Soc { combine: Some("fuse,split"), ..whole(name, short, arch, cores) }
}

const fn beside(name: &'static str, short: &'static str, cores: u16, vector_cores: u16) -> Soc {
    Soc { vector_arch: "dav-m200-vec", vector_cores, ..whole(name, short, "dav-m200", cores) }
}

/// Chips of every family of CANN 8.1. `Ascend910B` is one of the first generation, `Ascend910B1` is not.
///
/// Names, families and architectures are the vendor's. Of the numbers of cores only those of `Ascend910B1` and
/// `Ascend910B` are.
pub const SOCS: [Soc; 24] = [
    whole("Ascend910A", "Ascend910", "dav-c100", 32),
    whole("Ascend910ProA", "Ascend910", "dav-c100", 32),
    whole("Ascend910ProB", "Ascend910", "dav-c100", 30),
    whole("Ascend910PremiumA", "Ascend910", "dav-c100", 32),
    whole("Ascend910B", "Ascend910", "dav-c100", 30),
    split("Ascend910B1", "Ascend910B", 24),
    split("Ascend910B2", "Ascend910B", 24),
    split("Ascend910B2C", "Ascend910B", 24),
    split("Ascend910B3", "Ascend910B", 20),
    split("Ascend910B4", "Ascend910B", 20),
    split("Ascend910B4-1", "Ascend910B", 20),
    split("Ascend910_9362", "Ascend910_93", 20),
    split("Ascend910_9391", "Ascend910_93", 24),
    split("Ascend910_9392", "Ascend910_93", 24),
    fused("Ascend910_9599", "Ascend910_95", "dav-c310", 32),
    beside("Ascend310P1", "Ascend310P", 10, 8),
    beside("Ascend310P3", "Ascend310P", 8, 7),
    beside("Ascend610", "Ascend610", 10, 8),
    fused("Ascend310B1", "Ascend310B", "dav-m300", 1),
    fused("Ascend310B4", "Ascend310B", "dav-m300", 1),
    fused("AS31XM1X", "AS31XM1", "dav-m300", 1),
    whole("Ascend310", "Ascend310", "dav-m100", 2),
    Soc { combine: Some("fuse"), ..whole("Ascend610Lite", "Ascend610Lite", "dav-m310", 2) },
    Soc { combine: Some("fuse"), ..whole("BS9SX2AA", "BS9SX2A", "dav-m310", 4) },
];

impl Soc {
    /// The chip called so.
    pub fn find(name: &str) -> Option<&'static Self> {
        SOCS.iter().find(|soc| soc.name == name)
    }

    /// Whether its cores compute in bfloat16.
    pub(super) fn has_bfloat16(&self) -> bool {
        !matches!(self.short, "Ascend910" | "Ascend310P" | "Ascend310" | "Ascend610")
    }

    /// Whether it runs operators in Ascend C.
    pub(super) fn has_ascend_c(&self) -> bool {
        self.is_split()
    }

    /// Whether cube and vector cores are apart.
    pub fn is_split(&self) -> bool {
        self.combine == Some("split")
    }

    /// The file.
    pub(super) fn ini(&self) -> String {
        let Self { name, short, cube_arch, vector_arch, cores, vector_cores, .. } = self;
        let mut text = format!(
            "# [Platform Info configuration begin]\n#\n[version]\nSoC_version={name}\nShort_SoC_version={short}\n\
             CCEC_AIC_version={cube_arch}\n"
        );
        if cube_arch != vector_arch {
            text += &format!(
                "CCEC_AIV_version={vector_arch}\nCCEC_CUBE_version={cube_arch}\nCCEC_VECTOR_version={vector_arch}\n"
            );
        }
        text += &format!("Compiler_aicpu_support_os=true\n\n[SoCInfo]\nai_core_cnt={cores}\n");
        if *vector_cores > 0 {
            text += &format!("cube_core_cnt={cores}\nvector_core_cnt={vector_cores}\n");
        }
        text += "ai_cpu_cnt=4\nmemory_type=\nmemory_size=68719476736\nl2_type=0\nl2_size=201326592\n";
        if self.is_split() {
            text += "ffts_mode=ffts-plus\ncore_type_list=CubeCore,VectorCore\n";
        }
        if let Some(combine) = self.combine {
            text += &format!("cube_vector_combine={combine}\n");
        }
        text + "vir_type_list=2,3,6,12,24\n\n[AICoreSpec]\ncube_m_size=16\ncube_n_size=16\ncube_k_size=16\n\
               vec_calc_size=128\nl0_a_size=65536\nl0_b_size=65536\nl0_c_size=131072\nl1_size=524288\nub_size=196608\n\
               ubblock_size=32\n\n[DtypeMKN]\nDefault=16,16,16\nDT_INT8=16,32,16\n\n[AICoreintrinsicDtypeMap]\n\
               0=Intrinsic_vrec|float16,float32\n1=Intrinsic_vadd|float16,float32,int32,int16\n"
    }
}
