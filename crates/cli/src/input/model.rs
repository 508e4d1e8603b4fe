//! A model: a network, or a single operator.

use std::path::{Path, PathBuf};

use opkeep::{DebugConfig, Engine, Request};
use opkeep_descriptor::{Arg, BuildSpec, Descriptor, Tensor};
use opkeep_onnx::{Network, ValueInfo};

use crate::flags::compile::CompileArgs;
use crate::input::dims::Dims;
use crate::input::options::UnknownOptions;
use crate::input::{self, InputFiles};
use crate::ui::env;
use crate::ui::output::{ExitStatus, Output};

/// The maximum number of bytes of an `op_debug_config` file.
const MAX_DEBUG_CONFIG: u64 = 16 << 20;

/// An input of the command.
pub(crate) enum Model {
    /// An operator, as a framework describes it.
    Operator(Box<Descriptor>),
    /// A network, prepared for the target.
    Network(Box<Network>),
}

impl Model {
    /// Reads the model at `path`. A network is prepared by `engine`'s backend.
    ///
    /// # Errors
    /// The file cannot be read, or the target does not support the network.
    pub(crate) fn read(
        path: &Path,
        engine: &Engine,
        common: &CompileArgs,
        dims: &mut Dims,
    ) -> anyhow::Result<Self> {
        if !input::is_network(path)? {
            return input::read_descriptor(path).map(|descriptor| Self::Operator(Box::new(descriptor)));
        }
        let mut network = dims.read(path).map_err(|error| input::with_path(path, error))?;
        let prepared = engine.prepare(network.graph, &spec(common));
        network.graph = prepared.map_err(|error| input::with_path(path, error))?;
        Ok(Self::Network(Box::new(network)))
    }

    /// Removes from `unknown` the options that the operator's descriptor has.
    pub(crate) fn remove_known_options(&self, unknown: &mut UnknownOptions<'_>) {
        if let Self::Operator(descriptor) = self {
            unknown.remove_found_in(&descriptor.spec);
        }
    }

    /// Returns a request for each operator.
    pub(crate) fn requests(&self, common: &CompileArgs) -> Vec<Request> {
        match self {
            Self::Network(network) => opkeep::requests(&network.graph, &spec(common)),
            Self::Operator(descriptor) => {
                let mut spec = descriptor.spec.retarget(common.target());
                set_options(&mut spec, common);
                vec![Request::new((**descriptor).clone()).with_spec(spec)]
            }
        }
    }

    /// Returns the model's inputs.
    pub(crate) fn inputs(&self) -> Vec<ValueInfo> {
        match self {
            Self::Network(network) => network.inputs.clone(),
            Self::Operator(descriptor) => value_infos(
                "input",
                descriptor.job.data.iter().flat_map(|data| &data.outputs).flat_map(Arg::iter),
            ),
        }
    }

    /// Returns the model's outputs.
    pub(crate) fn outputs(&self) -> Vec<ValueInfo> {
        match self {
            Self::Network(network) => network.outputs.clone(),
            Self::Operator(descriptor) => value_infos(
                "output",
                descriptor.job.ops.iter().flat_map(|op| &op.outputs).flat_map(Arg::iter),
            ),
        }
    }
}

/// Inputs that cannot be built, with the errors.
#[derive(Default)]
pub(crate) struct Unreadable {
    pub(crate) errors: Vec<(PathBuf, anyhow::Error)>,
    /// The number of inputs that were read and cannot be built.
    refused: usize,
}

impl Unreadable {
    pub(crate) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    fn refuse(&mut self, file: PathBuf, error: anyhow::Error) {
        let is_read = !error.chain().any(|error| error.is::<std::io::Error>());
        self.refused += usize::from(is_read);
        self.errors.push((file, error));
    }

    /// Returns the exit status of a command that succeeded with all other inputs. A refused input is a problem, like a
    /// kernel that cannot be compiled; an input that cannot be read is worse.
    pub(crate) fn exit_status(&self) -> ExitStatus {
        match self.errors.len() {
            0 => ExitStatus::Success,
            all if self.refused == all => ExitStatus::Problems,
            _ => ExitStatus::Failed,
        }
    }
}

/// Returns a request for each operator of the files that `inputs` name, the inputs that cannot be built, and the
/// options that no descriptor has.
pub(crate) fn requests<'c>(
    inputs: &[PathBuf],
    engine: &Engine,
    common: &'c CompileArgs,
) -> anyhow::Result<(Vec<Request>, Unreadable, UnknownOptions<'c>)> {
    let InputFiles { files, unreadable: errors, .. } = input::model_files(inputs);
    let mut unreadable = Unreadable { errors, refused: 0 };
    let (mut requests, mut dims) = (Vec::new(), Dims::of(&common.dims)?);
    let mut unknown = UnknownOptions::of(common);
    for file in files {
        match Model::read(&file, engine, common, &mut dims) {
            Ok(model) => {
                model.remove_known_options(&mut unknown);
                requests.extend(model.requests(common));
            }
            Err(error) => unreadable.refuse(file, error),
        }
    }
    dims.check()?;
    Ok((requests, unreadable, unknown))
}

/// The debug options of all compiles while CANN collects information for its maintainers.
const COLLECTING: [&str; 4] = ["dump_bin", "dump_cce", "dump_loc", "ccec_g"];

/// Sets the debug options of the operators that `--op_debug_config` names, or of all operators while CANN collects
/// information.
pub(crate) fn set_debug_options(
    requests: &mut [Request],
    common: &CompileArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let path = common.op_debug_config.as_ref();
    let Some(path) = path.filter(|path| !path.as_os_str().is_empty()) else {
        // An empty path turns debugging off.
        if path.is_some() {
            DebugConfig::new(Vec::new()).set_on(requests);
        }
        if env::is_collecting() {
            set_collecting_options(requests, output);
        }
        return Ok(());
    };
    let text = input::read_file(path, MAX_DEBUG_CONFIG)?;
    let config: DebugConfig =
        String::from_utf8_lossy(&text).parse().map_err(|error| input::with_path(path, error))?;
    if config.options.is_empty() && env::is_collecting() {
        set_collecting_options(requests, output);
        return Ok(());
    }
    for unused in config.set_on(requests) {
        output.print_warning(&format!(
            "`{}`: op_debug_list names `{}`, and there is no such operator (types are written OpType::Type)",
            path.display(),
            unused
        ));
    }
    Ok(())
}

/// Sets the debug options of all requests, as CANN does while it collects information, even if the configuration is
/// empty.
fn set_collecting_options(requests: &mut [Request], output: &Output) {
    output.print_note(&format!(
        "NPU_COLLECT_PATH is set: everything is compiled for debugging ({}), and nothing is stored",
        COLLECTING.join(",")
    ));
    let options = COLLECTING.map(str::to_owned).into();
    DebugConfig::new(options).set_on(requests);
}

/// Returns the build spec of a network. A descriptor has a spec of its own.
fn spec(common: &CompileArgs) -> BuildSpec {
    let mut spec = BuildSpec::new(common.target());
    set_options(&mut spec, common);
    spec
}

fn set_options(spec: &mut BuildSpec, common: &CompileArgs) {
    for (name, value) in &common.options {
        spec.options.insert(name.clone(), value.as_str().into());
    }
    if let Some(level) = common.op_debug_level {
        spec.options.insert("op_debug_level".to_owned(), level.to_string().into());
    }
}

fn value_infos<'a>(what: &str, tensors: impl Iterator<Item = &'a Tensor>) -> Vec<ValueInfo> {
    let info = |(at, tensor): (usize, &Tensor)| ValueInfo {
        name: format!("{what} {at}"),
        dtype: tensor.dtype.clone(),
        shape: tensor.shape.clone(),
    };
    tensors.enumerate().map(info).collect()
}
