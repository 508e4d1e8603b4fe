//! Wrappers in other languages than shell, and the files of their interpreters.

use std::io;

use crate::case::{Call, Case, MATTERS, Need};
use crate::place::Place;
use crate::system::{flag, program, python};

const PYTHON: &[Need] = &[Need::Python];
const PERL: &[Need] = &[Need::Program("perl")];

/// A wrapper in Python, whose list `more` is set by `body`. It writes no bytecode.
fn python_wrapper(place: &Place, body: &str) -> io::Result<Call> {
    let (gcc, root) = (place.gcc()?, place.root());
    let text = format!(
        "#!{} -B\nimport os, sys\nT = {root:?}\n{body}\nos.execv({gcc:?}, [{gcc:?}] + sys.argv[1:] + more)\n",
        python()?
    );
    place.program("cc", text)?;
    Ok(Call::cc(place.text("cc")))
}

/// A wrapper in Perl, whose `@more` is set by `body`.
fn perl_wrapper(place: &Place, body: &str) -> io::Result<Call> {
    let (gcc, root) = (place.gcc()?, place.text("."));
    let perl = program("perl")?;
    let text = format!(
        "#!{perl}\nmy $T = '{root}';\n{body}\nexec {{ '{gcc}' }} '{gcc}', @ARGV, @more or die \"exec: $!\";\n"
    );
    place.program("cc", text)?;
    Ok(Call::cc(place.text("cc")))
}

fn module(mark: u32) -> String {
    format!("more = ['{}']\n", flag(mark))
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "python_module",
        about: "a module beside a Python wrapper changes",
        needs: PYTHON,
        setup: |place| {
            place.write("settings.py", module(1))?;
            python_wrapper(place, "from settings import more")
        },
        change: |place, _| place.write("settings.py", module(2)),
        ..MATTERS
    },
    Case {
        name: "python_module_of_a_package",
        about: "a module of a package that a module imports changes",
        needs: PYTHON,
        setup: |place| {
            place.write("settings.py", "from site_flags.here import more\n")?;
            place.write("site_flags/__init__.py", "")?;
            place.write("site_flags/here.py", module(1))?;
            python_wrapper(place, "from settings import more")
        },
        change: |place, _| place.write("site_flags/here.py", module(2)),
        ..MATTERS
    },
    Case {
        name: "python_module_appears",
        about: "a module that may be missing appears",
        needs: PYTHON,
        setup: |place| {
            python_wrapper(place, "try:\n    from settings import more\nexcept ImportError:\n    more = []")
        },
        change: |place, _| place.write("settings.py", module(2)),
        ..MATTERS
    },
    Case {
        name: "python_that_looks_for_some_kernels",
        about: "os.path.exists decides for one operator, in a directory that Python lists, and is asked for with that only",
        needs: PYTHON,
        may_refuse: true,
        setup: |place| {
            python_wrapper(
                place,
                "import json\n\
                 is_relu = os.path.exists('kernel.c') and 'relu_' in open('kernel.c').read()\n\
                 more = ['-Wl,-soname,m1'] if is_relu and os.path.exists(T + '/marked') else []",
            )
        },
        change: |place, _| place.write("marked", ""),
        ..MATTERS
    },
    Case {
        name: "python_module_that_shadows",
        about: "a module appears beside the wrapper that shadows one of Python's",
        needs: PYTHON,
        setup: |place| python_wrapper(place, "import colorsys\nmore = getattr(colorsys, 'more', [])"),
        change: |place, _| place.write("colorsys.py", module(2)),
        ..MATTERS
    },
    Case {
        name: "python_bytecode_without_source",
        about: "a module is bytecode only, and changes",
        needs: PYTHON,
        setup: |place| {
            place.bytecode("settings", &module(1))?;
            python_wrapper(place, "from settings import more")
        },
        change: |place, _| place.bytecode("settings", &module(2)),
        ..MATTERS
    },
    Case {
        name: "python_data",
        about: "a Python wrapper reads JSON, which changes",
        needs: PYTHON,
        setup: |place| {
            place.write("flags.json", format!("[\"{}\"]\n", flag(1)))?;
            python_wrapper(place, "import json\nmore = json.load(open(os.path.join(T, 'flags.json')))")
        },
        change: |place, _| place.write("flags.json", format!("[\"{}\"]\n", flag(2))),
        ..MATTERS
    },
    Case {
        name: "python_listing",
        about: "a Python wrapper lists a directory in which a file appears",
        needs: PYTHON,
        setup: |place| {
            place.write("flags/m1", "")?;
            python_wrapper(place, "more = ['-Wl,-soname,' + max(os.listdir(os.path.join(T, 'flags')))]")
        },
        change: |place, _| place.write("flags/m2", ""),
        ..MATTERS
    },
    Case {
        name: "perl_library",
        about: "a Perl wrapper runs a file, which changes",
        needs: PERL,
        setup: |place| {
            place.write("flags.pl", format!("@more = ('{}'); 1;\n", flag(1)))?;
            perl_wrapper(place, "our @more; do \"$T/flags.pl\";")
        },
        change: |place, _| place.write("flags.pl", format!("@more = ('{}'); 1;\n", flag(2))),
        ..MATTERS
    },
    Case {
        name: "perl_module_appears",
        about: "of two directories of Perl modules the first gets one",
        needs: PERL,
        setup: |place| {
            place.write("first/readme", "")?;
            place.write("second/Flags.pm", format!("@more = ('{}'); 1;\n", flag(1)))?;
            let lib = format!("use lib '{}', '{}';", place.text("first"), place.text("second"));
            perl_wrapper(place, &format!("{lib}\nour @more; require Flags;"))
        },
        change: |place, _| place.write("first/Flags.pm", format!("@more = ('{}'); 1;\n", flag(2))),
        ..MATTERS
    },
    Case {
        name: "interpreter_by_env",
        about: "env finds the script's interpreter in PATH, where another appears first",
        setup: |place| {
            place.write("bin/readme", "")?;
            place.script("cc", "/usr/bin/env sh", "exec \"$GCC\" \"$@\"")?;
            Ok(Call::cc(place.text("cc")).with_path(place.text("bin")))
        },
        change: |place, _| place.program("bin/sh", "#!/bin/sh\nshift\nexec gcc \"$@\" -Wl,-soname,m2\n"),
        ..MATTERS
    },
    Case {
        name: "interpreter_by_env_with_arguments",
        about: "env -S gives the shell an option, and a file that the script runs changes",
        setup: |place| {
            place.write("settings", format!("more={}\n", flag(1)))?;
            place.script("cc", "/usr/bin/env -S sh -e", ". \"$T/settings\"\nexec \"$GCC\" \"$@\" $more")?;
            Ok(Call::cc(place.text("cc")))
        },
        change: |place, _| place.write("settings", format!("more={}\n", flag(2))),
        ..MATTERS
    },
    Case {
        name: "startup_file_of_a_shell",
        about: "the wrapper sets BASH_ENV for a script of bash, and that file changes",
        needs: &[Need::Program("bash")],
        setup: |place| {
            place.write("startup", format!("more={}\n", flag(1)))?;
            let bash = program("bash")?;
            place.wrapper_by("inner", &bash, "$more")?;
            place.script("cc", "/bin/sh", "BASH_ENV=\"$T/startup\" exec \"$T/inner\" \"$@\"")?;
            Ok(Call::cc(place.text("cc")))
        },
        change: |place, _| place.write("startup", format!("more={}\n", flag(2))),
        ..MATTERS
    },
    Case {
        name: "make_as_a_wrapper",
        about: "make prints the flags by a makefile that includes another, which changes",
        needs: &[Need::Program("make")],
        setup: |place| {
            place
                .write("makefile", format!("include {}\nall:\n\t@echo $(MORE)\n", place.text("flags.mk")))?;
            place.write("flags.mk", format!("MORE={}\n", flag(1)))?;
            place.wrapper("cc", "", "$(make -s -f \"$T/makefile\")")?;
            Ok(Call::cc(place.text("cc")))
        },
        change: |place, _| place.write("flags.mk", format!("MORE={}\n", flag(2))),
        ..MATTERS
    },
];
