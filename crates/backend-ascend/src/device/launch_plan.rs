//! The data for launching a kernel, read from its `.json` and its job before a device is used.

use std::ffi::CString;

use opkeep_artifact::Artifact;
use opkeep_backend::{BackendError, Slot};
use opkeep_cann_meta::{BlockDim, Json, KernelMeta, Magic, Parameter, Placeholder, TaskRation, Word};
use opkeep_descriptor::{Arg, Job};
use opkeep_digest::Digest;
use opkeep_text::counted;

use crate::NAME;

/// The maximum number of arguments of the runtime.
const MAX_ARGUMENTS: usize = 128;

/// The data of a launch.
#[derive(Debug)]
pub(crate) struct LaunchPlan {
    /// The kernel's name in the object, without `_mix_aic` or `_mix_aiv`.
    pub(crate) kernel: String,
    pub(crate) kernel_name: CString,
    pub(crate) magic: u32,
    pub(crate) blocks: u32,
    pub(crate) schedule_mode: u8,
    pub(crate) inputs: Vec<Slot>,
    pub(crate) outputs: Vec<Slot>,
    /// The size of each workspace in bytes.
    pub(crate) workspaces: Vec<usize>,
    /// The kernel's arguments, in its order.
    pub(crate) arguments: Vec<Argument>,
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Argument {
    pub(crate) place: Place,
    /// Whether the memory must be 0 before the launch.
    pub(crate) cleared: bool,
}

/// The target of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Input(usize),
    Output(usize),
    Workspace(usize),
    /// An omitted optional tensor.
    Nowhere,
}

impl LaunchPlan {
    /// The plan for an artifact. Its object must have the digest that its `.json` states.
    pub(crate) fn new(artifact: &Artifact, job: &Job) -> Result<Self, BackendError> {
        let meta = KernelMeta::parse(&artifact.metadata).map_err(|error| refuse("?", error.to_string()))?;
        let kernel = entry(&meta)?;
        let refuse = |problem: String| refuse(&kernel, problem);
        let sha256 = Digest::of(&artifact.object).to_string();
        if meta.sha256.as_deref() != Some(&sha256) {
            return Err(refuse(format!("its SHA-256 is {sha256}, its .json says {:?}", meta.sha256)));
        }
        let magic = magic(&meta).map_err(refuse)?;
        let blocks = blocks(&meta).map_err(refuse)?;
        check_arguments(&meta).map_err(refuse)?;
        let workspaces = workspaces(&meta).map_err(refuse)?;
        let inputs: Vec<Slot> = job
            .data
            .iter()
            .flat_map(|data| &data.outputs)
            .flat_map(Arg::iter)
            .map(|tensor| Slot::of(tensor, NAME))
            .collect::<Result<_, _>>()?;
        let outputs: Vec<Slot> = job
            .ops
            .iter()
            .flat_map(|op| &op.outputs)
            .flat_map(Arg::iter)
            .map(|tensor| Slot::of(tensor, NAME))
            .collect::<Result<_, _>>()?;
        let mut places = places(&meta, job, inputs.len(), outputs.len()).map_err(refuse)?;
        places.extend((0..workspaces.len()).map(Place::Workspace));
        if places.len() > MAX_ARGUMENTS {
            return Err(refuse(format!(
                "it takes {} arguments, the runtime {MAX_ARGUMENTS} at most",
                places.len()
            )));
        }
        let arguments = with_clearing(&meta, places).map_err(refuse)?;
        let kernel_name = CString::new(kernel.as_str()).map_err(|error| refuse(error.to_string()))?;
        let schedule_mode = u8::try_from(meta.schedule_mode.unwrap_or_default());
        let schedule_mode =
            schedule_mode.map_err(|_| refuse(format!("schedule_mode {:?}", meta.schedule_mode)))?;
        Ok(Self { kernel, kernel_name, magic, blocks, schedule_mode, inputs, outputs, workspaces, arguments })
    }
}

fn refuse(kernel: &str, problem: String) -> BackendError {
    BackendError::Load { kernel: kernel.to_owned(), problem }
}

/// The one kernel of the object.
fn entry(meta: &KernelMeta) -> Result<String, BackendError> {
    if meta.json_list.as_ref().is_some_and(|list| !list.is_empty()) {
        let name = meta.kernel_name.as_deref().unwrap_or("?");
        return Err(refuse(
            name,
            "it is split into two objects (`jsonList`), which cannot be launched as one".into(),
        ));
    }
    match meta.entry_names().as_slice() {
        [name] if !name.is_empty() => Ok((*name).to_owned()),
        [] | [_] => Err(refuse("?", "its .json names no kernel".into())),
        [first, ..] => Err(refuse(
            first,
            "the object has a kernel for each of several tiling keys, and only the operator's tiling function can \
             choose; kernels for shapes that are known when they are compiled can be launched"
                .into(),
        )),
    }
}

fn magic(meta: &KernelMeta) -> Result<u32, String> {
    match &meta.magic {
        Some(Word::Known(Magic::ElfAicpu)) => Err("it is a kernel for the AI CPU".into()),
        Some(Word::Known(magic)) if magic.is_elf() => Ok(magic.value()),
        other => Err(format!(
            "its magic is {}, expected one of an ELF object",
            other.as_ref().map_or("missing", Word::as_str)
        )),
    }
}

fn blocks(meta: &KernelMeta) -> Result<u32, String> {
    let listed = meta.listed().and_then(|list| list.first()).and_then(|entry| entry.block_dim);
    match listed.or(meta.block_dim) {
        Some(BlockDim::Fixed(0)) => Err("blockDim is 0: nothing would run".into()),
        Some(BlockDim::Fixed(blocks)) => Ok(blocks),
        Some(BlockDim::Dynamic) => {
            Err("blockDim is -1: the operator's tiling function decides at each launch".into())
        }
        None => Err("blockDim is missing".into()),
    }
}

/// Refuses a kernel that needs arguments whose positions are not known for certain.
fn check_arguments(meta: &KernelMeta) -> Result<(), String> {
    if let Some(bytes @ 1..) = meta.op_para_size {
        return Err(format!(
            "it takes {bytes} of tiling data, which the operator's tiling function makes; only kernels without \
             can be launched",
            bytes = counted(bytes, "byte")
        ));
    }
    if let Some(space) = &meta.spec_workspace {
        return Err(format!(
            "it takes {} for the status check of the whole device",
            counted(space.size, "byte")
        ));
    }
    if meta.dynamic_param_mode.as_deref() == Some("folded_with_desc") {
        return Err("it takes descriptions of variadic tensors (dynamicParamMode is folded_with_desc)".into());
    }
    if meta.task_ration.as_ref() == Some(&TaskRation::TilingKey) && meta.listed().is_none() {
        return Err("its cores are stated for each tiling key, but no key is listed".into());
    }
    Ok(())
}

fn workspaces(meta: &KernelMeta) -> Result<Vec<usize>, String> {
    let Some(workspace) = &meta.workspace else { return Ok(Vec::new()) };
    let kinds = workspace.kind.as_deref().unwrap_or_default();
    if let Some(kind) = kinds.iter().find(|kind| **kind != 0) {
        return Err(format!("a workspace is of memory kind {kind}, expected 0 (the device's main memory)"));
    }
    let bytes = |size: &i64| {
        usize::try_from(*size)
            .map_err(|_| format!("a workspace is of size {size}: the operator's tiling function decides"))
    };
    workspace.size.iter().map(bytes).collect()
}

/// The tensors among the arguments: inputs, then outputs. If the kernel was compiled with placeholders, omitted
/// optional tensors have a null address.
fn places(meta: &KernelMeta, job: &Job, inputs: usize, outputs: usize) -> Result<Vec<Place>, String> {
    let holds =
        |mode: &Option<Word<Placeholder>>| mode.as_ref().and_then(Word::known) == Some(Placeholder::Gen);
    let mut places = Vec::with_capacity(inputs + outputs);
    let mut next = 0;
    match job.ops.as_slice() {
        [op] if holds(&meta.optional_input_mode) => {
            op.inputs.iter().for_each(|arg| in_place(arg, &mut next, &mut places, Place::Input));
        }
        _ => {
            places.extend((0..inputs).map(Place::Input));
            next = inputs;
        }
    }
    if next != inputs {
        return Err(format!(
            "its operator takes {next}, but the job feeds {inputs}",
            next = counted(next, "tensor")
        ));
    }
    next = 0;
    let given = job.ops.iter().flat_map(|op| &op.outputs);
    if holds(&meta.optional_output_mode) {
        given.for_each(|arg| in_place(arg, &mut next, &mut places, Place::Output));
    } else {
        places.extend((0..outputs).map(Place::Output));
    }
    Ok(places)
}

fn in_place<T>(arg: &Arg<T>, next: &mut usize, places: &mut Vec<Place>, place: fn(usize) -> Place) {
    match arg {
        Arg::Absent(_) => places.push(Place::Nowhere),
        Arg::One(_) | Arg::Many(_) => {
            let from = *next;
            *next += arg.iter().len();
            places.extend((from..*next).map(place));
        }
    }
}

/// Adds to each argument whether it must be cleared, from `parameters`, which has one item per argument.
fn with_clearing(meta: &KernelMeta, places: Vec<Place>) -> Result<Vec<Argument>, String> {
    let parameters = meta.parameters.as_deref().unwrap_or_default();
    let cleared = |at: usize| match parameters.get(at) {
        None | Some(Parameter::Null | Parameter::Int(0)) => Ok(false),
        Some(Parameter::Int(1)) => Ok(true),
        Some(Parameter::Clear(clear)) if clear.init_value.as_ref().is_none_or(is_zero) => Ok(true),
        Some(other) => Err(format!("argument {at} must be set before the launch to other than 0: {other:?}")),
    };
    if let Some(at) = (places.len()..parameters.len()).find(|at| cleared(*at) != Ok(false)) {
        return Err(format!("argument {at} must be cleared, but the kernel has {}", places.len()));
    }
    let arguments = places.iter().enumerate().map(|(at, place)| {
        let cleared = cleared(at)?;
        match place {
            Place::Input(_) | Place::Nowhere if cleared => {
                Err(format!("argument {at} must be cleared, but it is no output and no workspace"))
            }
            place => Ok(Argument { place: *place, cleared }),
        }
    });
    arguments.collect()
}

fn is_zero(value: &Json) -> bool {
    value.text().parse::<f64>().is_ok_and(|value| value == 0.0)
}
