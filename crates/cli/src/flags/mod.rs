//! Arguments that several commands share.

pub(crate) mod compile;
pub(crate) mod record;
pub(crate) mod remote;
pub(crate) mod store;
pub(crate) mod target_filter;
pub(crate) mod tensors;
pub(crate) mod trust;

/// The environment variables of the commands that build.
pub(crate) const ENVIRONMENT: &str = "\
Environment:
  CC  the C compiler of the target cpu, and arguments for it
  OPKEEP_CONFIG
    a file of settings, without --config, in place of the files opkeep.toml; /dev/null: none
  OPKEEP_TARGET, OPKEEP_JOBS, OPKEEP_NICE, OPKEEP_DEADLINE
    without --target, --jobs, --nice, --deadline
  OPKEEP_CACHE_MODE, OPKEEP_TRUSTED_OWNERS, OPKEEP_CANN_DRIVER
    without --op_compiler_cache_mode, --trusted-owner (separated by commas), --cann-driver
  OPKEEP_TRUSTED_PROJECTS
    directories, separated by colons, whose opkeep.toml may decide which code runs and what is deleted
  OPKEEP_TOOLCHAIN_INPUTS
    files and directories, separated by colons, that are part of the compiler
  OPKEEP_CACHE_DIR
    the store's directory; if unset, ASCEND_CACHE_PATH/opkeep, XDG_CACHE_HOME/opkeep or ~/.cache/opkeep; if that
    is CANN's kernel_cache, the directory opkeep in it
  OPKEEP_REMOTE, OPKEEP_REMOTE_MODE, OPKEEP_REMOTE_NAMESPACE
    the remote cache, without --remote, --remote-mode, --remote-namespace
  OPKEEP_SIGN_KEY, OPKEEP_TRUSTED_KEYS
    the keys of kernels, without --sign-key and --trusted-keys
  XDG_STATE_HOME
    with trusted keys, opkeep/host-key in it marks what this host compiled [default: ~/.local/state]
  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_PROFILE, AWS_REGION, ...
    the access to s3://, as for other programs
  OPKEEP_REMOTE_HEADERS, OPKEEP_REMOTE_HEADERS_FILE
    the access to grpc://: lines such as authorization: Bearer TOKEN, or a file of them, which is read again when
    the server refuses them
  OPKEEP_REMOTE_TLS_CA, OPKEEP_REMOTE_TLS_CERTIFICATE, OPKEEP_REMOTE_TLS_KEY
    PEM files for servers that speak TLS: the authorities to trust instead of the system's, this client's
    certificate, and its key
  ASCEND_MAX_OP_CACHE_SIZE, ASCEND_REMAIN_CACHE_SIZE_RATIO, OPKEEP_MAX_CACHE_ENTRIES
    limits of the store; see opkeep help gc
  ASCEND_HOME_PATH, ASCEND_TOOLKIT_HOME, ASCEND_OPP_PATH
    the directory of CANN, without --cann; see opkeep targets
  ASCEND_CUSTOM_OPP_PATH
    packages of custom operators, separated by colons
  HI_PYTHON  the Python that CANN runs with [default: python3]
  OPKEEP_BUILD_RECORDS
    on or off: whether the store gets a record of each build, without --build-records [default: on]
  OPKEEP_ROOTS, OPKEEP_IGNORED_VARIABLES, OPKEEP_LOG_DIRS
    without --root, --ignore-variable, --log-dir of opkeep opc
  MS_COMPILER_CACHE_PATH
    the directory that holds rank_N/kernel_meta [default: .]
  RANK_ID  the N of rank_N [default: 0]
  NPU_COLLECT_PATH
    if set, all kernels are compiled for debugging and none is stored, as by CANN, unless --op_debug_config names
    other options
  OPKEEP_LOG
    what the command does, event by event, on stderr: levels of modules such as opkeep=debug or
    opkeep_store=trace,opkeep_cache=debug
  TMPDIR  the directory of work directories, also of failed compiles [default: /tmp]

Examples:
  opkeep build model.onnx --target cpu
    builds the kernels of a network
  opkeep explain model.onnx --target cpu
    reports which kernels a build would reuse, and why it would compile the others
  opkeep help build
    describes all options of a command";
