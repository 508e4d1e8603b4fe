//! Files that clang reads and gcc does not.

use crate::case::{Call, Case, MATTERS, MAY_MATTER, Need};
use crate::system::{flag, header, program};

const CLANG: &[Need] = &[Need::Program("clang")];
const TREE: &[Need] = &[Need::ClangTree];

pub(super) const CASES: &[Case] = &[
    Case {
        name: "clang_nested_header",
        about: "-include a.h includes b.h, which changes",
        needs: CLANG,
        setup: |place| {
            place.write("a.h", "#include \"b.h\"\n")?;
            place.header("b.h", 1)?;
            Ok(Call::cc(format!("clang -include {}", place.text("a.h"))))
        },
        change: |place, _| place.header("b.h", 2),
        ..MATTERS
    },
    Case {
        name: "clang_header_that_is_asked_for",
        about: "__has_include asks for a header that appears",
        needs: CLANG,
        setup: |place| {
            place.write("a.h", format!("#if __has_include(\"b.h\")\n{}#endif\n", header(1)))?;
            Ok(Call::cc(format!("clang -include {}", place.text("a.h"))))
        },
        change: |place, _| place.write("b.h", ""),
        ..MATTERS
    },
    Case {
        name: "clang_configuration",
        about: "--config names a file, which changes",
        needs: CLANG,
        setup: |place| {
            place.write("x.cfg", format!("{}\n", flag(1)))?;
            Ok(Call::cc(format!("clang --config {}", place.text("x.cfg"))))
        },
        change: |place, _| place.write("x.cfg", format!("{}\n", flag(2))),
        may_refuse: true,
        ..MATTERS
    },
    Case {
        name: "clang_nested_configuration",
        about: "a wrapper names a configuration file, which names another, which changes",
        needs: CLANG,
        setup: |place| {
            place.write("x.cfg", "@y.cfg\n")?;
            place.write("y.cfg", format!("{}\n", flag(1)))?;
            let body = format!("exec {} --config \"$T/x.cfg\" \"$@\"", program("clang")?);
            place.script("clang", "/bin/sh", &body)?;
            Ok(Call::cc(place.text("clang")))
        },
        change: |place, _| place.write("y.cfg", format!("{}\n", flag(2))),
        ..MATTERS
    },
    Case {
        name: "clang_configuration_appears",
        about: "a configuration file appears beside the driver, found by its name",
        needs: TREE,
        setup: |place| Ok(Call::cc(place.clang_tree("c", "x86_64-linux-gnu-clang")?)),
        change: |place, _| place.write("c/bin/x86_64-linux-gnu.cfg", format!("{}\n", flag(2))),
        ..MATTERS
    },
    Case {
        name: "clang_configuration_of_a_driver",
        about: "the configuration file that is found by the driver's name changes",
        needs: TREE,
        setup: |place| {
            place.write("c/bin/x86_64-linux-gnu-clang.cfg", format!("{}\n", flag(1)))?;
            Ok(Call::cc(place.clang_tree("c", "x86_64-linux-gnu-clang")?))
        },
        change: |place, _| place.write("c/bin/x86_64-linux-gnu-clang.cfg", format!("{}\n", flag(2))),
        ..MATTERS
    },
    Case {
        name: "clang_plain_configuration_appears",
        about: "clang.cfg appears beside the driver: later versions read it",
        needs: TREE,
        setup: |place| Ok(Call::cc(place.clang_tree("c", "clang")?)),
        change: |place, _| place.write("c/bin/clang.cfg", format!("{}\n", flag(2))),
        ..MAY_MATTER
    },
    Case {
        name: "clang_resource_directory",
        about: "-resource-dir has a header that is included by its name, and changes",
        needs: CLANG,
        setup: |place| {
            place.write("r/include/stdbool.h", header(1))?;
            Ok(Call::cc(format!("clang -resource-dir={} -include stdbool.h", place.text("r"))))
        },
        change: |place, _| place.write("r/include/stdbool.h", header(2)),
        ..MATTERS
    },
    Case {
        name: "clang_plugin",
        about: "-Xclang -load p.so, and p.so changes",
        needs: TREE,
        setup: |place| {
            place.part("pass_5.so", "p.so")?;
            Ok(Call::cc(format!("clang -Xclang -load -Xclang {}", place.text("p.so"))))
        },
        change: |place, _| place.part("pass_6.so", "p.so"),
        may_refuse: true,
        ..MATTERS
    },
    Case {
        name: "clang_plugin_by_response_file",
        about: "a response file names a plug-in, which changes",
        needs: TREE,
        setup: |place| {
            place.part("pass_5.so", "p.so")?;
            place.write("flags", format!("-fplugin={}\n", place.text("p.so")))?;
            Ok(Call::cc(format!("clang @{}", place.text("flags"))))
        },
        change: |place, _| place.part("pass_6.so", "p.so"),
        ..MATTERS
    },
    Case {
        name: "clang_file_map",
        about: "-ivfsoverlay maps the included header to a file, and then to another",
        needs: CLANG,
        setup: |place| {
            place.header("1.h", 1)?;
            place.header("2.h", 2)?;
            place.write("map", map(&place.text("."), "1.h"))?;
            let (map, virtual_header) = (place.text("map"), place.text("virtual.h"));
            Ok(Call::cc(format!("clang -ivfsoverlay{map} -include{virtual_header}")))
        },
        change: |place, _| place.write("map", map(&place.text("."), "2.h")),
        ..MATTERS
    },
    Case {
        name: "clang_header_behind_a_file_map",
        about: "-ivfsoverlay maps the included header to a file, which changes",
        needs: CLANG,
        setup: |place| {
            place.header("1.h", 1)?;
            place.write("map", map(&place.text("."), "1.h"))?;
            let (map, virtual_header) = (place.text("map"), place.text("virtual.h"));
            Ok(Call::cc(format!("clang -ivfsoverlay{map} -include{virtual_header}")))
        },
        change: |place, _| place.header("1.h", 2),
        ..MATTERS
    },
    Case {
        name: "clang_gcc_installation_appears",
        about: "--gcc-toolchain has two versions of gcc, and the newer one appears",
        needs: CLANG,
        setup: |place| {
            for file in ["crtbegin.o", "crtbeginS.o"] {
                place.write(&format!("g/lib/gcc/x86_64-linux-gnu/11/{file}"), "")?;
            }
            place.part("libm_1.a", "g/lib/gcc/x86_64-linux-gnu/11/libm.a")?;
            Ok(Call::cc(format!("clang --gcc-toolchain={}", place.text("g"))))
        },
        change: |place, _| {
            for file in ["crtbegin.o", "crtbeginS.o"] {
                place.write(&format!("g/lib/gcc/x86_64-linux-gnu/12/{file}"), "")?;
            }
            place.part("libm_2.a", "g/lib/gcc/x86_64-linux-gnu/12/libm.a")
        },
        ..MATTERS
    },
    Case {
        name: "clang_gcc_installation_that_is_none",
        about: "a directory appears where versions of gcc are listed, and holds none",
        needs: CLANG,
        setup: |place| {
            for file in ["crtbegin.o", "crtbeginS.o"] {
                place.write(&format!("g/lib/gcc/x86_64-linux-gnu/11/{file}"), "")?;
            }
            Ok(Call::cc(format!("clang --gcc-toolchain={}", place.text("g"))))
        },
        change: |place, _| place.write("g/lib/gcc/x86_64-linux-gnu/12/readme", ""),
        ..MAY_MATTER
    },
    Case {
        name: "clang_linker",
        about: "-fuse-ld names a linker, which changes",
        needs: CLANG,
        setup: |place| {
            let real = place.gcc_program("ld")?;
            place.script("my-ld", "/bin/sh", &format!("exec {real} \"$@\" -soname m1"))?;
            Ok(Call::cc(format!("clang -fuse-ld={} -Wno-fuse-ld-path", place.text("my-ld"))))
        },
        change: |place, _| {
            let real = place.gcc_program("ld")?;
            place.script("my-ld", "/bin/sh", &format!("exec {real} \"$@\" -soname m2"))
        },
        ..MATTERS
    },
    Case {
        name: "clang_linker_beside_it_appears",
        about: "ld appears beside clang",
        needs: TREE,
        setup: |place| Ok(Call::cc(place.clang_tree("c", "clang")?)),
        change: |place, _| {
            let real = place.gcc_program("ld")?;
            place.script("c/bin/ld", "/bin/sh", &format!("exec {real} \"$@\" -soname m2"))
        },
        ..MATTERS
    },
    Case {
        name: "clang_assembler",
        about: "-fno-integrated-as finds an as in a -B directory, which appears",
        needs: CLANG,
        setup: |place| {
            place.write("b/readme", "")?;
            Ok(Call::cc(format!("clang -fno-integrated-as -B{}", place.text("b"))))
        },
        change: |place, _| {
            let real = place.gcc_program("as")?;
            let more = "printf '\\t.section .rodata\\n\\t.long 7\\n' > more.s";
            place.script("b/as", "/bin/sh", &format!("{more}\nexec {real} \"$@\" more.s"))
        },
        ..MATTERS
    },
    Case {
        name: "clang_override_of_options",
        about: "a wrapper sets CCC_OVERRIDE_OPTIONS from a file, which changes",
        needs: CLANG,
        setup: |place| {
            place.write("options", "# +-Wl,-soname,m1")?;
            let set = "export CCC_OVERRIDE_OPTIONS=\"$(cat \"$T/options\")\"";
            let body = format!("{set}\nexec {} \"$@\"", program("clang")?);
            place.script("clang", "/bin/sh", &body)?;
            Ok(Call::cc(place.text("clang")))
        },
        change: |place, _| place.write("options", "# +-Wl,-soname,m2"),
        ..MATTERS
    },
    Case {
        name: "clang_static_library",
        about: "-L dir with a libm.a, which changes",
        needs: CLANG,
        setup: |place| {
            place.part("libm_1.a", "lib/libm.a")?;
            Ok(Call::cc(format!("clang -L{}", place.text("lib"))))
        },
        change: |place, _| place.part("libm_2.a", "lib/libm.a"),
        ..MATTERS
    },
];

/// A map of clang's file system: `virtual.h` in `dir` is the file `name` there.
fn map(dir: &str, name: &str) -> String {
    let dir = dir.trim_end_matches("/.");
    format!(
        "{{'version': 0, 'roots': [{{'name': '{dir}/virtual.h', 'type': 'file', \
         'external-contents': '{dir}/{name}'}}]}}\n"
    )
}
