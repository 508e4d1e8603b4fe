//! The kernel names of MindSpore and AKG.
//!
//! A name contains a hash of a part of the descriptor; the part depends on the [`Generation`]:
//!
//! | generation | name | hashed text |
//! |---|---|---|
//! | r1.0, r1.1 | `{Type}_{H}_{D}` | `op_info` without `Type`, module and path |
//! | r1.2 | `{Type}_{H}_{D}` | `op_info` without `Type`; then `SocInfo` without `socVersion` |
//! | r1.5 | `{func}_{H}_{D}` | `op_list` |
//! | r1.6 | `{func}_{H}_{D}` | `op_list` without `output_data_desc` |
//! | r1.7 to r2.0 | `{func}_{H}_{D}` | the same, with `is_dynamic_impl` |
//! | r2.1, r2.2 | `{func}_{H}_{D}` | the same; then `SocInfo` |
//! | AKG | `{words}_{H}` | the composite, its target, its version |
//!
//! H is the hash in decimal, D the device's id. Names of nodes, and of tensors since r1.5, are not hashed; the name of
//! several fused operators lists all functions after `te_fusion_`. Such a name is no cache key: no generation before
//! r2.1 hashes the version of the toolchain, and since r2.1 directories and the device are hashed.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::info::labels;
use crate::info::tree::Tree;
use crate::info::{akg, op_info, write};
use crate::model::descriptor::Descriptor;
use crate::model::generation::{Form, Generation};
use crate::model::job::Op;
use crate::model::metadata::Envelope;
use crate::model::spec::BuildSpec;
use crate::name::error::NameError;
use crate::name::foreign::ForeignName;
use crate::name::kernel::KernelName;
use crate::name::{generations, murmur};
use crate::nlohmann::dump::dump;

impl KernelName {
    /// The name by which a framework of `generation` looks for the kernel of `descriptor` on the device `device_id`.
    ///
    /// A descriptor made by a program, or read from a file of another layout, is named as that generation would write
    /// it.
    ///
    /// # Errors
    /// [`NameError`] if there is no such name, or it cannot be determined.
    pub fn mindspore(
        descriptor: &Descriptor,
        generation: Generation,
        device_id: u32,
    ) -> Result<Self, NameError> {
        let number = number(descriptor, generation, device_id)?;
        let words = match words(descriptor, generation)? {
            Some(words) => words,
            None if generation == Generation::Akg => {
                return Err(NameError::Unstated { generation, what: "the words of the name" });
            }
            None => return Err(NameError::NoType { number }),
        };
        let name = spelled(&words, number, generation, device_id);
        // An empty or unusual function name would give a name from which the number cannot be read.
        match ForeignName::parse(&name).and_then(|name| name.number()) {
            Some(parsed) if parsed == number => vendor_name(name),
            _ => Err(NameError::not_a_name(&name)),
        }
    }
}

fn vendor_name(name: String) -> Result<KernelName, NameError> {
    KernelName::from_vendor(name).map_err(|name| NameError::not_a_name(&name))
}

impl Descriptor {
    /// The generation of the name `name`: the one that gives it to this descriptor, on the device in the name. Words
    /// that the descriptor lacks, as in files of r1.0 and r1.1, are not compared.
    ///
    /// `None` if the name has another form, or the descriptor was changed.
    pub fn named_by(&self, name: &str) -> Option<Generation> {
        let parsed = ForeignName::parse(name)?;
        let (hash, device) = (parsed.number()?, parsed.device().unwrap_or(0));
        let gives = |generation: &Generation| {
            let words =
                words(self, *generation).map(|words| words.unwrap_or_else(|| parsed.words().to_owned()));
            words.is_ok_and(|words| name == spelled(&words, hash, *generation, device))
                && number(self, *generation, device) == Ok(hash)
        };
        // If several generations hash the same text, the file's own takes precedence.
        self.envelope.generation.into_iter().chain(Generation::ALL).find(gives)
    }

    /// The requesting device: the one in the descriptor, otherwise the one in its kernel name, otherwise 0.
    pub fn device_id(&self) -> u32 {
        let stated = self.envelope.source_id.and_then(|id| u32::try_from(id).ok());
        let in_name = || ForeignName::parse(&self.envelope.fusion_op_name)?.device();
        stated.or_else(in_name).unwrap_or(0)
    }

    /// The file stem under which the framework of this descriptor looks for the kernel in `kernel_meta`: the
    /// descriptor's kernel name if it matches the fields, otherwise the name that its generation gives to these fields.
    ///
    /// # Errors
    /// [`NameError`] if there is no such name. A descriptor made by a program gets the name of r1.7 to r2.0, the newest
    /// generations that hash only the job.
    pub fn kernel_meta_stem(&self) -> Result<KernelName, NameError> {
        let envelope = &self.envelope;
        let given = &envelope.fusion_op_name;
        if self.named_by(given).is_some() {
            return vendor_name(given.clone());
        }
        KernelName::mindspore(self, envelope.generation.unwrap_or(Generation::R1_7), self.device_id())
    }
}

/// The words before the number in the name of `generation`; `None` if the descriptor lacks them.
fn words(descriptor: &Descriptor, generation: Generation) -> Result<Option<String>, NameError> {
    let ops = &descriptor.job.ops;
    Ok(match generation.form() {
        Form::OpInfo => match ops.as_slice() {
            [Op { op_type, .. }] => Some(op_type.clone()).filter(|op_type| !op_type.is_empty()),
            _ => return Err(NameError::Operators { generation, ops: ops.len() }),
        },
        Form::JobContent => {
            let prefix = if ops.len() > 1 { "te_fusion_" } else { "" };
            let funcs: Vec<&str> = ops.iter().map(|op| op.func_name.as_str()).collect();
            Some(format!("{prefix}{}", funcs.join("_")))
        }
        // They name the pass that made the composite, which no field states, so they are taken from the descriptor's
        // kernel name.
        Form::Akg => {
            ForeignName::parse(&descriptor.envelope.fusion_op_name).map(|name| name.words().to_owned())
        }
    })
}

fn spelled(words: &str, number: u64, generation: Generation, device: u32) -> String {
    match generation {
        Generation::Akg => format!("{words}_{number}"),
        _ => format!("{words}_{number}_{device}"),
    }
}

/// The number in the name of `generation` on the device `device_id`.
fn number(descriptor: &Descriptor, generation: Generation, device_id: u32) -> Result<u64, NameError> {
    let text = hashed_text(descriptor, generation)?;
    if generation == Generation::R2_1 {
        on_device(descriptor, device_id)?;
    }
    Ok(murmur::hash(text.as_bytes()))
}

/// Rejects a device other than the one in the descriptor, if any.
fn on_device(descriptor: &Descriptor, asked: u32) -> Result<(), NameError> {
    match descriptor.envelope.soc_info.get("deviceId") {
        Some(stated) if stated.as_str() != Some(asked.to_string().as_str()) => {
            let stated = stated.as_str().map_or_else(|| stated.to_string(), str::to_owned);
            let stated = stated.chars().take(80).collect();
            Err(NameError::OtherDevice { generation: Generation::R2_1, stated, asked })
        }
        _ => Ok(()),
    }
}

/// The hashed text of `generation`.
fn hashed_text(descriptor: &Descriptor, generation: Generation) -> Result<String, NameError> {
    let is_akg = descriptor.envelope.generation == Some(Generation::Akg);
    if is_akg != (generation == Generation::Akg) {
        return Err(NameError::OtherCompiler { generation });
    }
    let text = match generation.form() {
        Form::Akg => return Ok(dump(&composite(descriptor), Some("ptr_address"))?),
        Form::OpInfo => op_info_text(descriptor, generation)?,
        Form::JobContent => {
            let spelled = generations::as_job_content(descriptor, generation)?;
            let labels = labels::labels(&spelled.job, &spelled.envelope);
            let ops = write::op_list(&spelled.job, &spelled.envelope, &labels);
            let mut text = dump(&op_list(ops.into(), generation), None)?;
            if generation == Generation::R2_1 {
                text.push_str(&dump(&soc_info(&spelled.spec, &spelled.envelope), None)?);
            }
            text
        }
    };
    Ok(text)
}

fn soc_info(spec: &BuildSpec, envelope: &Envelope) -> Value {
    Tree::from(write::soc_info(spec, envelope)).into()
}

/// `op_list` without the members that no name hashes.
fn op_list(mut ops: Value, generation: Generation) -> Value {
    for op in ops.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        let is_data = op.get("type").is_some_and(|op_type| op_type == "Data");
        for name in ["name", "ori_name", "op_name", "pattern"] {
            op.remove(name);
        }
        if generation != Generation::R1_5 {
            op.remove("output_data_desc");
        }
        remove_names(op.get_mut("output_desc"));
        if !is_data {
            remove_names(op.get_mut("input_desc"));
        }
    }
    ops
}

/// Removes the names of tensors, in lists of lists too.
fn remove_names(tensors: Option<&mut Value>) {
    match tensors {
        Some(Value::Array(items)) => items.iter_mut().for_each(|item| remove_names(Some(item))),
        Some(Value::Object(map)) => _ = map.remove("name"),
        _ => {}
    }
}

fn op_info_text(descriptor: &Descriptor, generation: Generation) -> Result<String, NameError> {
    let spelled: Cow<'_, Descriptor> = generations::as_op_info(descriptor, generation)?;
    let Descriptor { job, spec, envelope } = &*spelled;
    let (_, labels) = labels::labels(job, envelope);
    let Some((op, labels)) = job.ops.first().zip(labels.first()) else {
        return Err(NameError::Operators { generation, ops: 0 });
    };
    let mut op_info = op_info::op_info(op, labels, spec, envelope);
    if generation == Generation::R1_2 {
        op_info::put_r1_2(&mut op_info, op);
    }
    for name in ["Type", "full_name", "graph_id", "kernel_name", "gen_model"] {
        op_info.remove(name);
    }
    if generation == Generation::R1_0 {
        op_info.remove("module_name");
        op_info.remove("py_module_path");
    }
    let mut text = dump(&op_info.into(), None)?;
    if generation == Generation::R1_2 {
        let mut soc_info = soc_info(spec, envelope);
        soc_info.as_object_mut().map(|map| map.remove("socVersion"));
        text.push_str(&dump(&soc_info, None)?);
    }
    Ok(text)
}

/// The hashed text of an AKG descriptor.
fn composite(descriptor: &Descriptor) -> Value {
    const HASHED: [&str; 9] = [
        "buffer_stitch",
        "dynamic_input_index",
        "input_desc",
        "op_desc",
        "output_desc",
        "parallel_fusion",
        "process",
        "target_info",
        "version",
    ];
    let mut document = akg::write(&descriptor.job, &descriptor.spec, &descriptor.envelope);
    let hashed = |name: &str| Some((name.to_owned(), document.get_mut(name)?.take()));
    opkeep_order::collected::<Map<_, _>, _>(HASHED.into_iter().filter_map(hashed)).into()
}
