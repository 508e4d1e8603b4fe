//! Symbolic links, directories that exchange names, and compilers that are found by name.

use crate::case::{Call, Case, MATTERS};
use crate::disk;
use crate::place::Place;
use crate::system::{flag, header};

/// Two versions of a compiler.
fn versions(place: &Place) -> std::io::Result<()> {
    place.wrapper("v1/bin/cc", "", &flag(1))?;
    place.wrapper("v2/bin/cc", "", &flag(2))
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "linked_driver",
        about: "the driver is a link, which is retargeted",
        setup: |place| {
            versions(place)?;
            place.link("v1/bin/cc", "cc")?;
            Ok(Call::cc(place.text("cc")))
        },
        change: |place, _| place.link("v2/bin/cc", "cc"),
        ..MATTERS
    },
    Case {
        name: "link_in_the_middle",
        about: "a directory on the way to the driver is a link, which is retargeted",
        setup: |place| {
            versions(place)?;
            place.link("v1", "current")?;
            Ok(Call::cc(place.text("current/bin/cc")))
        },
        change: |place, _| place.link("v2", "current"),
        ..MATTERS
    },
    Case {
        name: "last_of_several_links",
        about: "the last of three links to the driver is retargeted",
        setup: |place| {
            versions(place)?;
            place.link("v1/bin/cc", "last")?;
            place.link("last", "middle")?;
            place.link("middle", "cc")?;
            Ok(Call::cc(place.text("cc")))
        },
        change: |place, _| place.link("v2/bin/cc", "last"),
        ..MATTERS
    },
    Case {
        name: "link_becomes_a_file",
        about: "the driver was a link and is a file of its own",
        setup: |place| {
            versions(place)?;
            place.link("v1/bin/cc", "cc")?;
            Ok(Call::cc(place.text("cc")))
        },
        change: |place, _| {
            place.remove("cc")?;
            place.copy("v2/bin/cc", "cc")
        },
        ..MATTERS
    },
    Case {
        name: "link_in_path",
        about: "a directory of PATH is a link, which is retargeted",
        setup: |place| {
            versions(place)?;
            place.link("v1", "current")?;
            Ok(Call::cc("cc").with_path(place.text("current/bin")))
        },
        change: |place, _| place.link("v2", "current"),
        ..MATTERS
    },
    Case {
        name: "directories_exchange",
        about: "two directories of compilers exchange their names",
        setup: |place| {
            versions(place)?;
            Ok(Call::cc(place.text("v1/bin/cc")))
        },
        change: |place, _| place.exchange("v1", "v2"),
        ..MATTERS
    },
    Case {
        name: "directory_is_replaced",
        about: "the compiler's directory is renamed, and another gets its name",
        setup: |place| {
            versions(place)?;
            Ok(Call::cc(place.text("v1/bin/cc")))
        },
        change: |place, _| {
            place.rename("v1", "old")?;
            place.rename("v2", "v1")
        },
        ..MATTERS
    },
    Case {
        name: "driver_in_path_appears",
        about: "CC is a name, and an earlier directory of PATH gets such a program",
        setup: |place| {
            place.wrapper("second/mycc", "", &flag(1))?;
            place.write("first/readme", "")?;
            Ok(Call::cc("mycc").with_path(place.text("first")).with_path(place.text("second")))
        },
        change: |place, _| place.wrapper("first/mycc", "", &flag(2)),
        ..MATTERS
    },
    Case {
        name: "driver_in_path_may_run",
        about: "a program in an earlier directory of PATH gets the permission to run",
        setup: |place| {
            place.wrapper("second/mycc", "", &flag(1))?;
            place.wrapper("first/mycc", "", &flag(2))?;
            disk::chmod(&place.path("first/mycc"), 0o644)?;
            Ok(Call::cc("mycc").with_path(place.text("first")).with_path(place.text("second")))
        },
        change: |place, _| disk::chmod(&place.path("first/mycc"), 0o755),
        ..MATTERS
    },
    Case {
        name: "usual_driver",
        about: "CC is not set, and the cc in PATH changes",
        setup: |place| {
            place.wrapper("bin/cc", "", &flag(1))?;
            Ok(Call::default().with_path(place.text("bin")))
        },
        change: |place, _| place.wrapper("bin/cc", "", &flag(2)),
        ..MATTERS
    },
    Case {
        name: "order_of_path",
        about: "the directories of PATH stand in the other order",
        setup: |place| {
            versions(place)?;
            Ok(Call::cc("cc").with_path(place.text("v1/bin")).with_path(place.text("v2/bin")))
        },
        change: |place, call| {
            call.path = vec![place.text("v2/bin"), place.text("v1/bin")];
            Ok(())
        },
        ..MATTERS
    },
    Case {
        name: "other_driver",
        about: "CC names another compiler",
        setup: |place| {
            versions(place)?;
            Ok(Call::cc(place.text("v1/bin/cc")))
        },
        change: |place, call| {
            call.cc = place.text("v2/bin/cc");
            Ok(())
        },
        ..MATTERS
    },
    Case {
        name: "flags_beside_a_link",
        about: "a wrapper looks beside the link that it is called by, and another link is used",
        setup: |place| {
            place.wrapper("real/cc", "here=$(dirname \"$0\")", "$(cat \"$here/flags\")")?;
            for (dir, mark) in [("a", 1), ("b", 2)] {
                place.link("../real/cc", &format!("{dir}/cc"))?;
                place.write(&format!("{dir}/flags"), flag(mark))?;
            }
            Ok(Call::cc(place.text("a/cc")))
        },
        change: |place, call| {
            call.cc = place.text("b/cc");
            Ok(())
        },
        ..MATTERS
    },
    Case {
        name: "name_of_the_driver",
        about: "a wrapper goes by the name that it is called by",
        setup: |place| {
            place.wrapper("m1", "", "-Wl,-soname,$(basename \"$0\")")?;
            place.link("m1", "m2")?;
            Ok(Call::cc(place.text("m1")))
        },
        change: |place, call| {
            call.cc = place.text("m2");
            Ok(())
        },
        ..MATTERS
    },
    Case {
        name: "linked_header",
        about: "a nested header is a link, which is retargeted",
        setup: |place| {
            place.write("a.h", "#include \"b.h\"\n")?;
            place.header("1.h", 1)?;
            place.header("2.h", 2)?;
            place.link("1.h", "b.h")?;
            Ok(Call::cc(format!("gcc -include {}", place.text("a.h"))))
        },
        change: |place, _| place.link("2.h", "b.h"),
        ..MATTERS
    },
    Case {
        name: "linked_directory_of_headers",
        about: "the directory of a nested header is a link, which is retargeted",
        setup: |place| {
            place.write("a.h", "#include \"current/b.h\"\n")?;
            place.header("v1/b.h", 1)?;
            place.header("v2/b.h", 2)?;
            place.link("v1", "current")?;
            Ok(Call::cc(format!("gcc -include {}", place.text("a.h"))))
        },
        change: |place, _| place.link("v2", "current"),
        ..MATTERS
    },
    Case {
        name: "dangling_link_is_filled",
        about: "__has_include asks for a link whose target appears",
        setup: |place| {
            place.write("a.h", format!("#if __has_include(\"b.h\")\n{}#endif\n", header(1)))?;
            place.link("elsewhere/b.h", "b.h")?;
            Ok(Call::cc(format!("gcc -include {}", place.text("a.h"))))
        },
        change: |place, _| place.write("elsewhere/b.h", ""),
        ..MATTERS
    },
    Case {
        name: "flags_by_another_name_of_the_file",
        about: "a file of flags is written by its other hard link, in another directory",
        setup: |place| {
            place.write("elsewhere/flags", flag(1))?;
            disk::hard_link(&place.path("elsewhere/flags"), &place.path("flags"))?;
            place.wrapper("cc", "", "$(cat \"$T/flags\")")?;
            Ok(Call::cc(place.text("cc")))
        },
        change: |place, _| place.write("elsewhere/flags", flag(2)),
        ..MATTERS
    },
];
