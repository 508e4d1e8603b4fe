//! Caches as frameworks leave them, for tests to damage.
//!
//! Kernels follow the framework's rules: the name results from the descriptor, and the `.json` has the object's digest.
//! They compute nothing.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use opkeep_descriptor::{Generation, KernelName, read_info};
use serde_json::{Value, json};

use crate::ascend::{Chip, Kernel};

/// The documentation's own descriptor, of r1.5.
const SQUARE: &[u8] = include_bytes!("../../../fixtures/mindspore/square_12484080525657478220_2.info");

/// The files of one kernel, as a framework writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedKernelFiles {
    /// The stem of their names.
    pub stem: String,
    /// The `.json`.
    pub json: Vec<u8>,
    /// The `.o`.
    pub object: Vec<u8>,
    /// The `.info`, if MindSpore has the kernel.
    pub info: Option<Vec<u8>>,
}

/// A rank of MindSpore.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rank {
    /// `RANK_ID`.
    pub rank: u32,
    /// The device's id, the last part of each name.
    pub device: u32,
    /// The generation of MindSpore: r1.5 or later.
    pub generation: Generation,
    /// The chip.
    pub soc: &'static str,
}

impl Rank {
    /// Rank and device `rank` of MindSpore 2.0 on Ascend 910A.
    pub fn new(rank: u32) -> Self {
        Self { rank, device: rank, generation: Generation::R1_7, soc: "Ascend910A" }
    }

    /// The directory of this rank's kernels below `base`.
    pub fn dir(&self, base: &Path) -> PathBuf {
        base.join(format!("rank_{}", self.rank)).join("kernel_meta")
    }

    /// This rank's kernel of Square on `elements` floats. The object depends on the number of elements only.
    pub fn square(&self, elements: u32) -> CachedKernelFiles {
        self.square_of(elements, 64 + 4 * elements as usize)
    }

    /// The same with `code_bytes` of code.
    pub fn square_of(&self, elements: u32, code_bytes: usize) -> CachedKernelFiles {
        self.cached_square(true, elements, code_bytes)
    }

    /// The same, with one name in the object and in the directory, as in frameworks: it equals no other rank's.
    pub fn own_square_of(&self, elements: u32, code_bytes: usize) -> CachedKernelFiles {
        self.cached_square(false, elements, code_bytes)
    }

    /// A kernel is made once in a process: tests want the same few some thousand times.
    fn cached_square(&self, is_shared: bool, elements: u32, code_bytes: usize) -> CachedKernelFiles {
        type Kernels = HashMap<(Rank, bool, u32, usize), CachedKernelFiles>;
        static MADE: LazyLock<Mutex<Kernels>> = LazyLock::new(Mutex::default);
        let made = || MADE.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (self.clone(), is_shared, elements, code_bytes);
        if let Some(kernel) = made().get(&key) {
            return kernel.clone();
        }
        let kernel = self.make_square(is_shared.then_some("square"), elements, code_bytes);
        made().insert(key, kernel.clone());
        kernel
    }

    fn make_square(&self, name: Option<&str>, elements: u32, code_bytes: usize) -> CachedKernelFiles {
        let mut info: Value = serde_json::from_slice(SQUARE).unwrap_or_default();
        let (rank, device) = (self.rank, self.device);
        reshape(&mut info, elements);
        let soc = &mut info["job_content"]["SocInfo"];
        soc["deviceId"] = device.to_string().into();
        soc["op_debug_dir"] = format!("./rank_{rank}/").into();
        soc["socVersion"] = self.soc.into();
        if self.generation >= Generation::R1_7 {
            soc["kernel_meta_temp_dir"] = format!("./rank_{rank}/kernel_meta_temp_dir/").into();
        }
        if self.generation >= Generation::R2_1 {
            soc["te_version"] = "1.84".into();
            soc["deterministic"] = false.into();
            soc["op_debug_config"] = "".into();
        }
        info["source_id"] = device.into();
        let op = &mut info["job_content"]["op_list"][1];
        if self.generation >= Generation::R1_6
            && let Some(op) = op.as_object_mut()
        {
            op.remove("output_data_desc");
        }
        if self.generation >= Generation::R1_7 {
            op["is_dynamic_impl"] = false.into();
        }
        let stem = self.name(&info);
        info["job_content"]["fusion_op_name"] = stem.as_str().into();
        info["job_content"]["op_list"][1]["op_name"] = stem.as_str().into();
        let kernel = Kernel::new(Chip::of_soc(self.soc).unwrap_or(Chip::Ascend910), name.unwrap_or(&stem))
            .code_bytes(code_bytes)
            .stamp(&format!("square of {elements}"))
            .build();
        let pair = kernel.with_field("binFileName", stem.as_str());
        CachedKernelFiles { stem, json: pair.json, object: pair.object, info: Some(indented(&info)) }
    }

    fn name(&self, info: &Value) -> String {
        let named = read_info(&indented(info)).map_err(|error| error.to_string()).and_then(|read| {
            KernelName::mindspore(&read, self.generation, self.device).map_err(|e| e.to_string())
        });
        #[expect(
            clippy::panic,
            reason = "the fixture is no descriptor any more, so the test needs another one"
        )]
        match named {
            Ok(name) => name.to_string(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Gives every tensor `elements` elements.
fn reshape(value: &mut Value, elements: u32) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    "shape" | "ori_shape" => *value = json!([elements]),
                    "range" => *value = json!([[elements, elements]]),
                    _ => reshape(value, elements),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| reshape(item, elements)),
        _ => {}
    }
}

/// The text as MindSpore writes it.
fn indented(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    let format = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut writer = serde_json::Serializer::with_formatter(&mut bytes, format);
    // Writing to memory cannot fail.
    let _ = serde::Serialize::serialize(value, &mut writer);
    bytes.push(b'\n');
    bytes
}

/// Kernel `number` of an operator, in CANN's cache for `soc`.
pub fn cann_kernel(soc: &str, number: u32) -> CachedKernelFiles {
    let hash = opkeep_digest::Digest::of(format!("square {number}").as_bytes());
    let stem = format!("te_square_{hash}");
    let chip = Chip::of_soc(soc).unwrap_or(Chip::Ascend910B);
    let pair = Kernel::new(chip, &stem).code_bytes(64 + 4 * number as usize).build();
    CachedKernelFiles { stem, json: pair.json, object: pair.object, info: None }
}

impl CachedKernelFiles {
    /// The same kernel, compiled for `chip`: the descriptor stays as it is.
    #[must_use]
    pub fn compiled_for(self, chip: Chip) -> Self {
        let pair = Kernel::new(chip, &self.stem).build();
        Self { json: pair.json, object: pair.object, ..self }
    }

    /// Writes the files to `dir`, created if missing, with times an hour ago.
    ///
    /// # Errors
    /// They cannot be written.
    #[expect(clippy::disallowed_methods, reason = "tests write caches with this")]
    pub fn write(&self, dir: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(dir)?;
        // Frameworks write them in this order.
        let files = [("info", self.info.as_ref()), ("o", Some(&self.object)), ("json", Some(&self.json))];
        for (suffix, bytes) in files {
            if let Some(bytes) = bytes {
                let path = dir.join(format!("{}.{suffix}", self.stem));
                std::fs::write(&path, bytes)?;
                age(&path)?;
            }
        }
        Ok(())
    }
}

/// Sets the times of a file to an hour ago, so that it is not taken for one that is being written.
///
/// # Errors
/// The file belongs to another user.
#[expect(clippy::disallowed_methods, reason = "tests change caches with this")]
pub fn age(path: &Path) -> std::io::Result<()> {
    let before = SystemTime::now() - Duration::from_secs(3600);
    std::fs::File::open(path)?.set_times(std::fs::FileTimes::new().set_modified(before).set_accessed(before))
}

/// Waits until no other process has a file in `dir` open. A child that another thread starts has the files that are open in this
/// process until its program begins, and `gc` keeps open files.
///
/// # Errors
/// A file cannot be looked at, or is open for 20 s.
#[expect(clippy::disallowed_methods, reason = "tests look at caches with this")]
pub fn wait_until_closed(dir: &Path) -> std::io::Result<()> {
    let files: Vec<_> = std::fs::read_dir(dir)?.collect::<Result<_, _>>()?;
    let began = std::time::Instant::now();
    loop {
        let open = opkeep_fs::OpenFiles::of_others();
        let holder = files.iter().find_map(|file| {
            let stat = opkeep_fs::Dir::open_quietly(dir).ok()?.look(file.file_name()).ok()?;
            open.holder(&stat.state)
        });
        match holder {
            None => return Ok(()),
            Some(pid) if began.elapsed() > Duration::from_secs(20) => {
                return Err(std::io::Error::other(format!("{}: open in process {pid}", dir.display())));
            }
            Some(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}
