//! Caches, their targets and their warnings.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use opkeep_embed::{CacheMode, FileCache, FileCacheConfig, StoreConfig, TargetFiles};
use opkeep_remote::{RemoteSettings, SettingText};

use crate::code::{Code, Mode, WarningKind};
use crate::error::Error;
use crate::exit::send_at_exit;
use crate::ffi::pointers::{self, Growing};
use crate::ffi::types::{Cache, Target};
use crate::guard;
use crate::handles::{self, Object};
use crate::warnings::Warning;
use crate::{environment, last_error};

impl Object for FileCache {
    const KIND: &'static str = "cache";
}

impl Object for TargetFiles {
    const KIND: &'static str = "target";
}

/// The settings of a cache. Set it to zero, then set `size` and the fields that you need.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CacheOptions {
    /// `sizeof(opkeep_options)`.
    pub size: usize,
    /// The directory of the store. It is created if it is missing. Required, unless `mode` is `OPKEEP_MODE_DISABLE`.
    pub directory: *const c_char,
    /// The name of the framework, which is part of each key: 1 to 100 letters, digits, `_`, `-` and `.`, not a `.` first.
    /// Required.
    pub framework: *const c_char,
    /// The size in MB above which the entries of a target that were not used for the longest time are removed, until half of it
    /// is left. If 0, the size in the store's own settings, or else 500.
    pub max_megabytes: u64,
    /// An `opkeep_mode`; 0 is `OPKEEP_MODE_ENABLE`.
    pub mode: u32,
    /// The URL of the cache that hosts share, such as `redis://host:6379` or `file:///directory`; or null. docs/remote.md has the
    /// URLs. An engine that does not work is a warning, and every caller makes its files.
    pub remote: *const c_char,
    /// The use of the remote cache: `off`, `read` or `read-write`. If null, `read-write`.
    pub remote_mode: *const c_char,
    /// The part of the remote cache: products and teams that use one engine choose different names. If null, `default`.
    pub remote_namespace: *const c_char,
    /// The file of the secret key that signs what this process makes and shares; or null. `opkeep key generate` makes one.
    pub sign_key: *const c_char,
    /// The public keys that are trusted, `NAME:BASE64`, separated by spaces, or `@FILE` with a list of them; or null. Then only files
    /// are used that one of them signed, or that this host made: from the remote cache and from the store.
    pub trusted_keys: *const c_char,
    /// The file of the key by which this host recognizes what it made; it is created if it is missing. It is used only with trusted
    /// keys, and must not be in the store. If null, what no trusted key signed is made again by each process.
    pub host_key_file: *const c_char,
    /// The prefix of variables of the environment from which those of the last six fields come that are null; or null, and no variable
    /// is read. `OPKEEP` stands for OPKEEP_REMOTE, OPKEEP_REMOTE_MODE, OPKEEP_REMOTE_NAMESPACE, OPKEEP_SIGN_KEY and
    /// OPKEEP_TRUSTED_KEYS, as the command has them. With a prefix, these are read as well, also if `remote` is set, since no field stands
    /// for them: OPKEEP_REMOTE_HEADERS and OPKEEP_REMOTE_HEADERS_FILE, the headers of each call; OPKEEP_REMOTE_TLS_CA,
    /// OPKEEP_REMOTE_TLS_CERTIFICATE and OPKEEP_REMOTE_TLS_KEY, the files of TLS; XDG_STATE_HOME or HOME, which lead to the host key that
    /// the command uses; and the AWS_ variables and AWS's files, for the access to S3. All are read in `opkeep_open`.
    pub environment: *const c_char,
    /// The longest time in milliseconds for which `opkeep_close` waits until what was published is in the remote cache. If 0, 10
    /// seconds.
    pub close_limit_ms: u64,
}

// SAFETY: the struct is `repr(C)`, `size` is first, and the fields are numbers and pointers.
unsafe impl Growing for CacheOptions {
    const FIRST_SIZE: usize = pointers::first_size!(CacheOptions: size, directory, framework, max_megabytes, mode; remote, remote_mode, remote_namespace, sign_key, trusted_keys, host_key_file, environment, close_limit_ms);
}

/// A warning: a problem that failed no call, such as a store that cannot be written.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CacheWarning {
    /// The text, which exists until the next call of `opkeep_next_warning` in this thread, or the thread's end.
    pub text: *const c_char,
    /// The number of earlier warnings that were dropped, because the caller did not fetch them: 64 are kept.
    pub dropped: u64,
    /// The subject.
    pub kind: WarningKind,
}

thread_local! {
    /// The text of the warning that the thread fetched last.
    static FETCHED: RefCell<CString> = RefCell::default();
}

/// Opens a cache. In the modes `READ_ONLY` and `REQUIRE`, a store that is missing or cannot be read is an error. In the others
/// it is a warning, and every caller makes its files.
///
/// On success, `cache` is a handle that the caller closes with `opkeep_close`; otherwise its `id` is 0. A forked child may
/// use the handle: the store is opened again there.
///
/// Errors: `ARGUMENT`, `NAME` (the framework), `STORE` (in these two modes), `IO` (a file of keys).
///
/// # Safety
/// The rules for pointers of [this module](crate::ffi).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opkeep_open(options: *const CacheOptions, cache: *mut Cache) -> Code {
    guard::code("opkeep_open", || {
        // SAFETY: the rules for pointers.
        let mut cache = unsafe { pointers::output(cache, Cache { id: 0 }, "cache") }?;
        // SAFETY: the rules for pointers.
        let config = unsafe { config(options) }?;
        let has_remote = config.cache.remote.is_some();
        let id = handles::insert_with_warnings(|id| {
            let on_warning = Arc::new(move |kind, text: &str| handles::warn(id, Warning::new(kind, text)));
            Ok(FileCache::open(config.with_on_warning(on_warning))?)
        })?;
        cache.set(Cache { id });
        if has_remote {
            send_at_exit();
        }
        Ok(())
    })
}

/// # Safety
/// The rules for pointers of [this module](crate::ffi).
unsafe fn config(options: *const CacheOptions) -> Result<FileCacheConfig, Error> {
    // SAFETY: the rules for pointers.
    let options = unsafe { pointers::growing(options, "options") }?;
    let mode = mode(options.mode)?;
    // SAFETY: the rules for pointers.
    let framework = unsafe { pointers::text(options.framework, "options->framework") }?;
    if mode == CacheMode::Disable && options.directory.is_null() {
        return Ok(FileCacheConfig::new(StoreConfig::new(""), framework).with_mode(mode));
    }
    // SAFETY: the rules for pointers.
    let directory = unsafe { pointers::path(options.directory, "options->directory") }?;
    let mut store = StoreConfig::new(directory);
    if options.max_megabytes > 0 {
        store.limits = store.limits.with_size(options.max_megabytes);
    }
    let mut config = FileCacheConfig::new(store, framework).with_mode(mode);
    if options.close_limit_ms > 0 {
        config.close_limit = Duration::from_millis(options.close_limit_ms);
    }
    // SAFETY: the rules for pointers.
    unsafe { remote_settings(&options) }?.apply(&mut config.cache)?;
    Ok(config)
}

/// # Safety
/// The rules for pointers of [this module](crate::ffi).
unsafe fn remote_settings(options: &CacheOptions) -> Result<RemoteSettings, Error> {
    let text = |pointer, field: &str| -> Result<_, Error> {
        let name = format!("options->{field}");
        // SAFETY: the rules for pointers.
        let text: Option<&str> = unsafe { pointers::optional_text(pointer, &name) }?;
        Ok(text.map(|text| SettingText::new(text, format!("`{name}`"))))
    };
    // SAFETY: the rules for pointers.
    let path = |pointer, what| unsafe { pointers::optional_path(pointer, what) };
    let mut settings = RemoteSettings::default();
    settings.url = text(options.remote, "remote")?;
    settings.mode = text(options.remote_mode, "remote_mode")?;
    settings.namespace = text(options.remote_namespace, "remote_namespace")?;
    settings.trusted_keys = text(options.trusted_keys, "trusted_keys")?;
    let sign_key = path(options.sign_key, "options->sign_key")?;
    settings.sign_key = sign_key.map(|file| SettingText::new(file, "`options->sign_key`"));
    settings.host_key_file = path(options.host_key_file, "options->host_key_file")?.map(Path::to_owned);
    // SAFETY: the rules for pointers.
    Ok(match unsafe { pointers::optional_text(options.environment, "options->environment") }? {
        None => settings,
        Some("") => return Err(Error::argument("`options->environment` is empty, expected a prefix")),
        Some(prefix) => settings.or_variables(&environment::variables(prefix)),
    })
}

fn mode(mode: u32) -> Result<CacheMode, Error> {
    let modes = [
        (Mode::Enable, CacheMode::Enable),
        (Mode::Force, CacheMode::Force),
        (Mode::Disable, CacheMode::Disable),
        (Mode::ReadOnly, CacheMode::ReadOnly),
        (Mode::Require, CacheMode::Require),
    ];
    let known = modes.into_iter().find(|(known, _)| *known as u32 == mode);
    known.map(|(_, mode)| mode).ok_or_else(|| {
        Error::argument(format!("`options->mode` is {mode}, expected an `opkeep_mode`: 0 to 4"))
    })
}

/// Closes a cache, which writes its counts of hits and misses when the last target and ticket of it are released, too. These
/// and the hits stay valid. A handle whose `id` is 0 is ignored.
///
/// With a remote cache, it waits until what was published is there, for `close_limit_ms` of the options at most; a later process
/// sends the rest. So a program that ends calls this. One that does not waits as long in `exit`, or at the end of `main`, for all of its
/// caches together, until what it published itself is sent; one that a signal or `_exit` ends does not wait.
///
/// A forked child waits for what it published itself, and so not at all if it has not used the cache. Its parent's handle, and what the
/// parent published, stay as they are.
///
/// Errors: `HANDLE`.
#[unsafe(no_mangle)]
pub extern "C" fn opkeep_close(cache: Cache) -> Code {
    guard::code("opkeep_close", || {
        if cache.id != 0 {
            handles::get::<FileCache>(cache.id)?.close();
        }
        handles::release::<FileCache>(cache.id)
    })
}

/// Waits until what was published is in the remote cache, for `timeout_ms` milliseconds at most, and sends what earlier processes
/// left. `left` may be null; it is set to the number of groups that are not there by then: a later process sends them. Returns at once
/// if there is no remote cache.
///
/// Errors: `HANDLE`, `ARGUMENT`.
///
/// # Safety
/// The rules for pointers of [this module](crate::ffi).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opkeep_finish_uploads(cache: Cache, timeout_ms: u64, left: *mut usize) -> Code {
    guard::code("opkeep_finish_uploads", || {
        // SAFETY: the rules for pointers.
        let left = unsafe { pointers::optional_output(left, 0, "left") }?;
        let cache = handles::get::<FileCache>(cache.id)?;
        let count = cache.finish_uploads(Duration::from_millis(timeout_ms), None);
        left.into_iter().for_each(|mut left| left.set(count));
        Ok(())
    })
}

/// Fetches the oldest warning of a cache, which is then removed from its list.
///
/// Errors: `NOT_FOUND` (there is none), `HANDLE`, `ARGUMENT`.
///
/// # Safety
/// The rules for pointers of [this module](crate::ffi).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opkeep_next_warning(cache: Cache, warning: *mut CacheWarning) -> Code {
    guard::code("opkeep_next_warning", || {
        let none = CacheWarning { text: c"".as_ptr(), dropped: 0, kind: WarningKind::Other };
        // SAFETY: the rules for pointers.
        let mut output = unsafe { pointers::output(warning, none, "warning") }?;
        handles::get::<FileCache>(cache.id)?;
        let (Warning { kind, text }, dropped) = handles::next_warning(cache.id)
            .ok_or_else(|| Error::new(Code::NotFound, "there is no further warning"))?;
        output.set(CacheWarning { text: last_error::keep(&FETCHED, text), dropped, kind });
        Ok(())
    })
}

/// Opens the files for one target, such as `cuda-sm_90`: the name of a directory of the store, and part of each key. It has 1
/// to 100 letters, digits, `_`, `-` and `.`, not a `.` first.
///
/// On success, `target` is a handle that the caller closes with `opkeep_target_close`; otherwise its `id` is 0. It stays
/// valid when the cache is closed. A forked child may use it.
///
/// Errors: `HANDLE`, `ARGUMENT`, `NAME`, `STORE`.
///
/// # Safety
/// The rules for pointers of [this module](crate::ffi).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opkeep_target_open(cache: Cache, name: *const c_char, target: *mut Target) -> Code {
    guard::code("opkeep_target_open", || {
        // SAFETY: the rules for pointers.
        let mut target = unsafe { pointers::output(target, Target { id: 0 }, "target") }?;
        let cache = handles::get::<FileCache>(cache.id)?;
        // SAFETY: the rules for pointers.
        let name = unsafe { pointers::text(name, "name") }?;
        target.set(Target { id: handles::insert(cache.target(name)?) });
        Ok(())
    })
}

/// Closes a target. Its hits and tickets stay valid. A handle whose `id` is 0 is ignored.
///
/// Errors: `HANDLE`.
#[unsafe(no_mangle)]
pub extern "C" fn opkeep_target_close(target: Target) -> Code {
    guard::code("opkeep_target_close", || handles::release::<TargetFiles>(target.id))
}
