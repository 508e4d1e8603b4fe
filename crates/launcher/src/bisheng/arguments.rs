//! The command line of `bisheng` and `ccec`, which is that of clang with options of its own.
//!
//! Only options whose effect is known are taken: each reads no file but through the preprocessor, and writes none but the object.
//! The list is that of the builds of operator packages (asc-devkit 9.1, `ascendc_compile_v220.py`) and of clang's manual.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use opkeep_digest::Hasher;

use super::NotCached;
use super::options::{Effect, effect, is_another_action, is_known_pass};

/// Options that give the preprocessor a file or a directory. What they bring in is in the text.
const SEARCH: [&str; 6] = ["-isystem", "-iquote", "-idirafter", "-include", "-imacros", "-I"];

const FORCED: &str = "-include";

/// Options with a value in the next argument that counts as it is.
const DEFINE: [&str; 2] = ["-D", "-U"];

/// Extensions of sources.
const SOURCES: [&str; 6] = ["c", "cc", "cpp", "cxx", "cce", "C"];

/// Languages that `-x` may name.
const LANGUAGES: [&str; 3] = ["cce", "c++", "c"];

/// An argument in the key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Keyed {
    AsIs(OsString),
    /// A file or directory for the preprocessor.
    Search,
    Output,
    /// The source, whose name without directories is in the object.
    Source(OsString),
}

/// A command line that compiles one source to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) source: OsString,
    pub(crate) output: OsString,
    /// The architecture of the kernel.
    pub(crate) arch: Option<String>,
    /// Whether the object or a warning may show where the source lies, or a line's number.
    pub(crate) shows_places: bool,
    /// Headers that are included by force.
    pub(crate) forced: Vec<OsString>,
    keyed: Vec<Keyed>,
    /// The arguments for the preprocessor.
    preprocess: Vec<OsString>,
}

#[derive(Default)]
struct Reading {
    keyed: Vec<Keyed>,
    preprocess: Vec<OsString>,
    sources: Vec<OsString>,
    outputs: Vec<OsString>,
    forced: Vec<OsString>,
    compiles: usize,
    arch: Vec<String>,
    is_cce: bool,
    is_device_only: bool,
    shows_places: bool,
}

impl Arguments {
    /// Reads the arguments behind the program's name.
    ///
    /// # Errors
    /// The reason why the command is run as it is.
    pub(crate) fn read(args: &[OsString]) -> Result<Self, NotCached> {
        let mut reading = Reading::default();
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            reading.take(arg, &mut rest)?;
        }
        reading.finish()
    }

    /// The arguments by which the text is written to standard output. The macros of date and time give `mark` there, if they are used.
    pub(crate) fn preprocess(&self, mark: &str) -> Vec<OsString> {
        let mut args = self.preprocess.clone();
        args.extend(["-E", "-Wno-builtin-macro-redefined"].map(OsString::from));
        for name in ["__DATE__", "__TIME__", "__TIMESTAMP__"] {
            args.push(format!("-D{name}=\"{mark}\"").into());
        }
        args
    }

    /// Adds the arguments to the digest of a key: without what only names places.
    pub(crate) fn hash(&self, hasher: &mut Hasher) {
        hasher.list(self.keyed.len());
        for keyed in &self.keyed {
            match keyed {
                Keyed::AsIs(arg) => {
                    hasher.str("as is");
                    hasher.bytes(arg.as_bytes());
                }
                Keyed::Search => hasher.str("search"),
                Keyed::Output => hasher.str("output"),
                Keyed::Source(name) => {
                    hasher.str("source");
                    hasher.bytes(name.as_bytes());
                }
            }
        }
    }
}

impl Reading {
    fn take<'a>(
        &mut self,
        arg: &'a OsString,
        rest: &mut impl Iterator<Item = &'a OsString>,
    ) -> Result<(), NotCached> {
        let unknown = || NotCached::Argument { argument: arg.to_string_lossy().into_owned() };
        let bytes = arg.as_bytes();
        if !bytes.starts_with(b"-") || bytes == b"-" {
            return self.source(arg);
        }
        if arg == "-c" {
            self.compiles += 1;
            self.keyed.push(Keyed::AsIs(arg.clone()));
            return Ok(());
        }
        if is_another_action(bytes) {
            return Err(NotCached::NoCompile);
        }
        if arg == "-o" {
            self.output(rest.next().ok_or(NotCached::Output)?.clone());
            return Ok(());
        }
        if arg == "-x" {
            let language = rest.next().ok_or_else(unknown)?;
            let is_known = LANGUAGES.iter().any(|known| language == known) && self.sources.is_empty();
            if !is_known {
                return Err(unknown());
            }
            self.is_cce = language == "cce";
            return self.as_is([arg, language]);
        }
        if arg == "-mllvm" {
            let pass = rest.next().ok_or_else(unknown)?;
            return if is_known_pass(pass) { self.as_is([arg, pass]) } else { Err(argument(pass)) };
        }
        if let Some((name, value)) = with_value(bytes, &SEARCH) {
            // `-include-pch` and the like are other options.
            if value.starts_with(b"-") {
                return Err(unknown());
            }
            self.preprocess.push(arg.clone());
            let mut value = OsStr::from_bytes(value);
            if value.is_empty() {
                value = rest.next().ok_or_else(unknown)?;
                self.preprocess.push(value.to_owned());
            }
            self.forced.extend((name == FORCED).then(|| value.to_owned()));
            self.keyed.extend([Keyed::AsIs(name.into()), Keyed::Search]);
            return Ok(());
        }
        if let Some((_, value)) = with_value(bytes, &DEFINE) {
            return match value.is_empty() {
                true => self.as_is([arg, rest.next().ok_or_else(unknown)?]),
                false => self.as_is([arg]),
            };
        }
        match self.option(arg.to_str().ok_or_else(unknown)?) {
            true => self.as_is([arg]),
            false => Err(unknown()),
        }
    }

    /// Notes an option without a further argument. Returns whether it is known.
    fn option(&mut self, option: &str) -> bool {
        if let Some(name) = option.strip_prefix("--cce-aicore-arch=") {
            self.arch.push(name.to_owned());
        }
        self.is_cce |= option == "--cce-aicore-lang";
        self.is_device_only |= option == "--cce-aicore-only";
        match effect(option) {
            Some(effect) => {
                self.shows_places |= effect == Effect::ShowsPlaces;
                true
            }
            None => false,
        }
    }

    fn as_is<const N: usize>(&mut self, args: [&OsString; N]) -> Result<(), NotCached> {
        self.keyed.extend(args.map(|arg| Keyed::AsIs(arg.clone())));
        self.preprocess.extend(args.map(OsString::clone));
        Ok(())
    }

    fn source(&mut self, arg: &OsString) -> Result<(), NotCached> {
        if arg == "-" {
            return Err(NotCached::Sources { count: 0 });
        }
        let path = Path::new(arg);
        let is_source = path.extension().is_some_and(|end| SOURCES.iter().any(|known| end == *known));
        let Some(name) = path.file_name().filter(|_| is_source && !arg.as_bytes().starts_with(b"@")) else {
            return Err(argument(arg));
        };
        self.is_cce |= path.extension() == Some(OsStr::new("cce"));
        self.keyed.push(Keyed::Source(name.to_owned()));
        self.preprocess.push(arg.clone());
        self.sources.push(arg.clone());
        Ok(())
    }

    fn output(&mut self, path: OsString) {
        self.keyed.push(Keyed::Output);
        self.outputs.push(path);
    }

    fn finish(self) -> Result<Arguments, NotCached> {
        let Self {
            keyed,
            preprocess,
            forced,
            sources,
            outputs,
            compiles,
            arch,
            is_cce,
            is_device_only,
            shows_places,
        } = self;
        if compiles != 1 {
            return Err(NotCached::NoCompile);
        }
        let count = sources.len();
        let [source] = <[OsString; 1]>::try_from(sources).map_err(|_| NotCached::Sources { count })?;
        let [output] = <[OsString; 1]>::try_from(outputs).map_err(|_| NotCached::Output)?;
        if output.is_empty() || output == "-" {
            return Err(NotCached::Output);
        }
        if is_cce && !is_device_only || arch.len() > 1 {
            return Err(NotCached::HostAndDevice);
        }
        let arch = arch.into_iter().next();
        Ok(Arguments { source, output, arch, shows_places, forced, keyed, preprocess })
    }
}

fn argument(arg: &OsStr) -> NotCached {
    NotCached::Argument { argument: arg.to_string_lossy().into_owned() }
}

/// The option of `names` with which an argument begins, and the rest of the argument.
fn with_value<'a>(arg: &'a [u8], names: &[&'static str]) -> Option<(&'static str, &'a [u8])> {
    names.iter().find_map(|name| Some((*name, arg.strip_prefix(name.as_bytes())?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Arguments, NotCached> {
        Arguments::read(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    fn digest(line: &str) -> opkeep_digest::Digest {
        let mut hasher = Hasher::new("test");
        read(line).unwrap().hash(&mut hasher);
        hasher.finish()
    }

    /// The command lines of a compile of one tiling key. (asc-devkit 9.1, `ascendc_compile_v220.py`)
    const KERNEL: &str = "-c -O3 -DDTYPE_X=half -I/t/tikcpp -I /p/common --cce-auto-sync -mllvm -api-deps-filter \
        --cce-disable-kernel-global-attr-check -include/t/asc_devkit_version.h --cce-aicore-lang /w/k_kernel.cpp --cce-aicore-arch=dav-c220-vec \
        --cce-aicore-only -o /w/kernel_meta/k_264.o -mllvm -cce-aicore-stack-size=0x8000 -mllvm -cce-aicore-record-overflow=false -include \
        /w/k_tiling_data.h -std=c++17 -Dauto_gen_k_kernel=k_264 -DTILING_KEY_VAR=264UL";

    #[test]
    fn a_compile_of_a_key_is_read() {
        let read = read(KERNEL).unwrap();
        assert_eq!(
            (read.source.to_str(), read.output.to_str()),
            (Some("/w/k_kernel.cpp"), Some("/w/kernel_meta/k_264.o"))
        );
        assert_eq!((read.arch.as_deref(), read.shows_places), (Some("dav-c220-vec"), false));
        let args = read.preprocess("mark");
        assert!(!args.iter().any(|arg| arg == "-c" || arg == "-o" || arg == "/w/kernel_meta/k_264.o"));
        assert!(args.iter().any(|arg| arg == "-E") && args.iter().any(|arg| arg == "-D__DATE__=\"mark\""));
    }

    #[test]
    fn only_places_do_not_count() {
        for (from, to) in [
            ("-I/t/tikcpp", "-I/u/other"),
            ("-o /w/kernel_meta/k_264.o", "-o /v/k.o"),
            ("/w/k_kernel.cpp", "/v/k_kernel.cpp"),
            ("/w/k_tiling_data.h", "/v/t.h"),
            ("-I /p/common", "-I/p/common"),
        ] {
            assert_eq!(digest(&KERNEL.replace(from, to)), digest(KERNEL), "{to}");
        }
        for (from, to) in [
            ("-O3", "-O2"),
            ("-DDTYPE_X=half", "-DDTYPE_X=float"),
            ("/w/k_kernel.cpp", "/w/j_kernel.cpp"),
            ("-I/t/tikcpp", ""),
            ("-I/t/tikcpp", "-isystem/t/tikcpp"),
            ("-std=c++17", "-std=c++20"),
            ("-DDTYPE_X=half", "-UDTYPE_X"),
            ("dav-c220-vec", "dav-c220-cube"),
            ("0x8000", "0x4000"),
            ("-O3 -DDTYPE_X=half", "-DDTYPE_X=half -O3"),
        ] {
            assert_ne!(digest(&KERNEL.replace(from, to)), digest(KERNEL), "{to}");
        }
    }

    #[test]
    fn what_may_show_a_place_is_known() {
        for option in [
            "-g",
            "-g3",
            "-gdwarf-4",
            "-gline-tables-only",
            "-fsanitize=address,undefined",
            "-Wall",
            "-Werror",
            "-Wno-error=x",
        ] {
            assert!(read(&format!("{KERNEL} {option}")).unwrap().shows_places, "{option}");
        }
        for option in
            ["-g0", "-w", "-Wno-unused", "-fPIC", "-fno-exceptions", "-ffp-contract=off", "-march=x86-64"]
        {
            assert!(!read(&format!("{KERNEL} {option}")).unwrap().shows_places, "{option}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_cached() {
        for option in [
            "-MD",
            "-MMD",
            "-MF",
            "@file",
            "-save-temps",
            "-gsplit-dwarf",
            "-fprofile-use=x",
            "-fplugin=x.so",
            "-Xclang",
            "-include-pch",
            "-I-",
            "--config",
            "-march=native",
            "-mcpu=native",
            "-mllvm -load=x.so",
            "-mllvm -cce-aicore-dump=file",
            "-ftime-trace",
            "-fmodules",
            "-Wp,-MD,x",
            "-Wa,-a",
            "-fsanitize-ignorelist=x",
            "--coverage",
            "-ftest-coverage",
            "-flto",
            "-fdebug-prefix-map=a=b",
            "--",
            "-",
            "--cce-enable-sanitizer",
            "-fopenmp",
            "-frecord-command-line",
            "-fno-integrated-as",
            "-B/x",
            "--target=x",
            "-xassembler",
            "other.s",
            "-fstack-usage",
            "-serialize-diagnostics",
            "-fcrash-diagnostics-dir=x",
            "-working-directory=/x",
            "--sysroot=/x",
            "-ffile-prefix-map=a=b",
        ] {
            assert!(read(&format!("{KERNEL} {option}")).is_err(), "{option}");
        }
        for line in [
            "",
            "-c",
            "-c a.cpp",
            "-o a.o a.cpp",
            "-E a.cpp",
            "-c -E -o a.o a.cpp",
            "-c -S a.cpp -o a.s",
            "-c a.cpp b.cpp -o a.o",
            "-c a.cpp -o a.o -o b.o",
            "-c a.cpp -o",
            "-c a.cpp -o -",
            "--version",
            "-c a.cce -o a.o",
            "-c -x cce a.cpp -o a.o",
            "-c a.cpp -x c -o a.o",
            "-c a.o -o b.o",
            "-c -c a.cpp -o a.o",
            "-c --cce-aicore-only --cce-aicore-arch=a --cce-aicore-arch=b a.cce -o a.o",
            "-c a.cpp -o a.o -mllvm",
            "-c a.cpp -o a.o -I",
            "-c a.cpp -o a.o -D",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
