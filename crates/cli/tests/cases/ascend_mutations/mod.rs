//! Ways to change what the stand-in toolkit and its Python read: each is a build, a change and a build, judged against
//! a store, a record and bytecode that know nothing of before, but for bytecode of Python's own library. Everything is ignored
//! where there is no Python. A run plays one in three, by `OPKEEP_MUTATION_SEEDS`, as for mutations of compilers; `all` plays
//! each.

#![expect(clippy::unwrap_used, reason = "helpers of tests are not themselves marked as tests")]
#![expect(clippy::disallowed_methods, reason = "tests make and change files")]

pub(crate) mod scene;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use self::scene::{Scene, copy_tree, generates, library_of, prefix};
use libtest_mimic::{Failed, Trial};
use opkeep_testkit::toolkit;
use opkeep_toolchain_mutations::is_played;

/// A change: what is there before the first build, and what happens before the second.
type Mutation = (&'static str, fn(&mut Scene), fn(&mut Scene));

/// Changes that make other kernels. Each compiles both times.
const MATTER: &[Mutation] = &[
    ("a_package_that_the_toolkit_imports", nothing, |s| s.package("numpy", "changed")),
    ("another_such_package", nothing, |s| s.package("decorator", "changed")),
    (
        "a_source_with_the_same_size_and_time",
        |s| s.package("numpy", "abc"),
        |s| {
            let path = s.toolkit_site().join("numpy/__init__.py");
            let time = fs::metadata(&path).unwrap().modified().unwrap();
            s.package("numpy", "xyz");
            fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        },
    ),
    (
        "a_module_on_pythonpath",
        |s| s.helper("a", "one").operator("import helper").done(),
        |s| s.helper("a", "two").done(),
    ),
    (
        "a_module_that_such_a_module_imports",
        |s| {
            s.write("path/a/deep.py", &generates("one")).write("path/a/helper.py", "import deep\n");
            s.operator("from helper import deep");
        },
        |s| s.write("path/a/deep.py", &generates("two")).done(),
    ),
    (
        "a_module_that_was_tried_in_vain",
        |s| s.operator("try:\n        import helper\n    except ImportError:\n        pass").done(),
        |s| s.helper("b", "new").done(),
    ),
    (
        "a_module_earlier_on_the_path",
        |s| s.helper("b", "late").operator("import helper").done(),
        |s| s.helper("a", "early").done(),
    ),
    (
        "a_package_earlier_on_the_path",
        |s| s.helper("b", "late").operator("import helper").done(),
        |s| s.write("path/a/helper/__init__.py", &generates("early")).done(),
    ),
    (
        "a_package_beside_the_module",
        |s| s.helper("a", "module").operator("import helper").done(),
        |s| s.write("path/a/helper/__init__.py", &generates("package")).done(),
    ),
    (
        "a_directory_that_becomes_a_package",
        |s| {
            s.write("path/a/space/readme", "").write("path/b/space/part.py", &generates("late"));
            s.operator("import space.part");
        },
        |s| {
            s.write("path/a/space/__init__.py", "").write("path/a/space/part.py", &generates("early"));
        },
    ),
    (
        "another_part_of_a_namespace",
        |s| s.write("path/b/space/part.py", &generates("late")).operator("import space.part").done(),
        |s| s.write("path/a/space/part.py", &generates("early")).done(),
    ),
    (
        "bytecode_without_a_source",
        |s| s.legacy("one").operator("import helper").done(),
        |s| s.legacy("two").done(),
    ),
    (
        "a_source_that_goes_and_leaves_bytecode",
        |s| s.legacy("bytecode").helper("a", "source").operator("import helper").done(),
        |s| fs::remove_file(s.place.path("path/a/helper.py")).unwrap(),
    ),
    (
        "a_module_in_an_archive",
        |s| {
            s.paths.push(s.place.path("library.zip"));
            s.archive("library.zip", "helper", "one").operator("import helper").done();
        },
        |s| s.archive("library.zip", "helper", "two").done(),
    ),
    (
        "an_archive_that_comes",
        |s| {
            s.paths.insert(0, s.place.path("library.zip"));
            s.helper("a", "late").operator("import helper").done();
        },
        |s| s.archive("library.zip", "helper", "early").done(),
    ),
    (
        "a_host_library_of_the_toolkit",
        |s| {
            let library = s.installed.path("lib64/libregister.so").display().to_string();
            s.operator(&format!("global GENERATES; GENERATES = open('{library}').read()"));
        },
        |s| fs::write(s.installed.path("lib64/libregister.so"), "stands for another").unwrap(),
    ),
    (
        "an_extension_module",
        |s| s.extension().operator("import _bisect").done(),
        |s| s.lengthen(&s.extension_path()),
    ),
    (
        "a_pth_file_that_adds_a_directory",
        |s| {
            s.write("more/helper.py", &generates("more"));
            s.operator("try:\n        import helper\n    except ImportError:\n        pass").done();
        },
        |s| {
            let line = format!("{}\n", s.place.path("more").display());
            fs::write(s.site().join("more.pth"), line).unwrap();
        },
    ),
    ("a_pth_file_with_code", nothing, |s| {
        let line = "import sys, types; m = types.ModuleType('hook'); m.GENERATES = 'hook'; sys.modules['hook'] = m\n";
        fs::write(s.site().join("hook.pth"), line).unwrap();
    }),
    ("sitecustomize_that_comes", nothing, |s| {
        fs::write(s.site().join("sitecustomize.py"), generates("site")).unwrap();
    }),
    (
        "sitecustomize_that_changes",
        |s| fs::write(s.site().join("sitecustomize.py"), generates("one")).unwrap(),
        |s| fs::write(s.site().join("sitecustomize.py"), generates("two")).unwrap(),
    ),
    ("usercustomize_that_comes", nothing, |s| {
        let site = s.user_site();
        fs::create_dir_all(&site).unwrap();
        fs::write(site.join("usercustomize.py"), generates("user")).unwrap();
    }),
    ("a_module_of_the_standard_library", nothing, |s| s.standard("keyword", "changed")),
    ("a_module_that_shadows_the_standard_library", nothing, |s| {
        let text = fs::read_to_string(s.library().join("keyword.py")).unwrap();
        s.write("path/a/keyword.py", &(text + &generates("shadow"))).done();
    }),
    ("the_archive_of_the_standard_library", nothing, |s| {
        let text = fs::read_to_string(s.library().join("keyword.py")).unwrap();
        s.write("zip/keyword.py", &(text + &generates("zip")));
        let name = s.library().file_name().unwrap().to_str().unwrap().replace('.', "");
        s.pack(&s.library().with_file_name(format!("{name}.zip")), &s.place.path("zip/keyword.py"));
    }),
    ("the_interpreter_itself", nothing, |s| s.lengthen(&s.python.clone())),
    (
        "what_a_script_reads_that_starts_python",
        |s| {
            s.write("flags", &s.place.path("path/a").display().to_string());
            s.helper("a", "one").helper("b", "two").operator("import helper");
            let body = "PYTHONPATH=$PYTHONPATH:$(cat '%'/flags) exec '%'/prefix/bin/python3 \"$@\"";
            let body = body.replace('%', s.place.dir.path().to_str().unwrap());
            (s.python, s.paths) = (s.place.script("python", &body), Vec::new());
        },
        |s| s.write("flags", &s.place.path("path/b").display().to_string()).done(),
    ),
    (
        "a_link_that_leads_to_another_python",
        |s| {
            let link = s.place.path("python");
            symlink(&s.python, &link).unwrap();
            s.python = link;
        },
        |s| {
            let other = prefix(&s.place.path("other"));
            fs::remove_file(&s.python).unwrap();
            symlink(&other, &s.python).unwrap();
            fs::write(library_of(&s.place.path("other")).join("sitecustomize.py"), generates("other"))
                .unwrap();
        },
    ),
    ("pyvenv_cfg_that_comes", nothing, |s| {
        prefix(&s.place.path("other"));
        fs::write(library_of(&s.place.path("other")).join("sitecustomize.py"), generates("other")).unwrap();
        let home = format!("home = {}\n", s.place.path("other/bin").display());
        fs::write(s.place.path("prefix/pyvenv.cfg"), home).unwrap();
    }),
    (
        "a_pth_file_beside_python_that_comes",
        |s| {
            s.write("more/helper.py", &generates("more"));
            s.operator("try:\n        import helper\n    except ImportError:\n        pass").done();
        },
        |s| {
            // With it, Python looks nowhere else: neither where the environment says nor beside itself.
            let library = s.library();
            let tbe = s.installed.impl_file("").parent().unwrap().to_owned();
            let all =
                [library.clone(), library.join("lib-dynload"), s.toolkit_site(), tbe, s.place.path("more")];
            let lines: Vec<String> = all.iter().map(|path| format!("{}\n", path.display())).collect();
            fs::write(s.place.path("prefix/bin/python3._pth"), lines.concat()).unwrap();
        },
    ),
    ("a_library_earlier_on_ld_library_path", nothing, |s| {
        let libc = s.loaded_library();
        let copy = s.place.path("libraries").join(libc.file_name().unwrap());
        fs::copy(&libc, &copy).unwrap();
        s.lengthen(&copy);
    }),
    ("a_compiler_earlier_on_path", nothing, |s| {
        let text = fs::read_to_string(s.installed.tool("ccec")).unwrap();
        let host = s.installed.tool("opc").with_file_name("ccec");
        fs::write(&host, text.replace("told $told", "told otherwise $told")).unwrap();
        fs::set_permissions(&host, fs::Permissions::from_mode(0o755)).unwrap();
    }),
    ("a_package_in_place_of_an_operator", nothing, |s| {
        for below in ["", "dynamic/"] {
            let text = fs::read_to_string(s.installed.impl_file(&format!("{below}square.py"))).unwrap();
            let package = s.installed.impl_file(&format!("{below}square"));
            fs::create_dir(&package).unwrap();
            let dots = text.replace("from .", "from ..");
            fs::write(package.join("__init__.py"), dots + &generates("package")).unwrap();
        }
    }),
    (
        "a_file_that_an_operator_reads",
        |s| {
            fs::write(s.installed.impl_file("table.txt"), "one").unwrap();
            let read = "global GENERATES; GENERATES = open(__file__[:__file__.index('/impl/')] + '/impl/table.txt').read()";
            s.operator(read).done();
        },
        |s| fs::write(s.installed.impl_file("table.txt"), "two").unwrap(),
    ),
    (
        "a_package_of_operators_earlier_on_the_path",
        |s| s.write("path/a/unrelated.py", "").done(),
        |s| {
            let copy = s.toolkit_site().join("impl");
            copy_tree(&s.installed.impl_file(""), &copy);
            for file in ["square.py", "dynamic/square.py"] {
                let text = fs::read_to_string(copy.join(file)).unwrap();
                fs::write(copy.join(file), text + &generates("shadow")).unwrap();
            }
        },
    ),
];

/// Changes that cannot matter.
const NEEDLESS: &[Mutation] = &[
    ("the_toolkit_moves", nothing, |s| {
        let to = s.place.path("elsewhere");
        fs::rename(s.place.path("Ascend"), &to).unwrap();
        s.home = to.join(s.installed.root().strip_prefix(s.place.path("Ascend")).unwrap());
    }),
    ("python_moves", nothing, |s| {
        fs::rename(s.place.path("prefix"), s.place.path("moved")).unwrap();
        s.python = s.place.path("moved/bin/python3");
    }),
    ("times_change", nothing, |s| {
        for path in crate::common::files(&s.toolkit_site())
            .into_iter()
            .chain(crate::common::files(&s.installed.impl_file("")))
        {
            let time = SystemTime::now() + Duration::from_secs(3);
            fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        }
    }),
    ("unchecked_bytecode_beside_a_package", nothing, |s| {
        s.unchecked(&s.toolkit_site().join("numpy/__init__.py"), "stale");
    }),
    (
        "unchecked_bytecode_beside_an_operator",
        |s| s.helper("a", "one").operator("import helper").done(),
        |s| {
            s.unchecked(&s.place.path("path/a/helper.py"), "stale");
        },
    ),
    ("unchecked_bytecode_beside_the_standard_library", nothing, |s| {
        s.unchecked(&s.library().join("keyword.py"), "stale");
    }),
    (
        "bytecode_beside_its_source",
        |s| s.helper("a", "one").operator("import helper").done(),
        |s| {
            s.legacy("stale").done();
        },
    ),
    ("another_package_in_site_packages", nothing, |s| {
        let other = s.site().join("unrelated");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("__init__.py"), generates("unrelated")).unwrap();
        fs::create_dir(s.site().join("unrelated-1.0.dist-info")).unwrap();
    }),
    (
        "an_upgrade_of_another_package",
        |s| fs::write(s.site().join("unrelated.py"), generates("one")).unwrap(),
        |s| fs::write(s.site().join("unrelated.py"), generates("two")).unwrap(),
    ),
    (
        "another_directory_on_pythonpath",
        |s| s.helper("a", "one").operator("import helper").done(),
        |s| {
            s.write("path/c/unrelated.py", &generates("unrelated"));
            s.paths.insert(0, s.place.path("path/c"));
        },
    ),
    (
        "the_same_module_later_on_the_path",
        |s| s.helper("a", "one").operator("import helper").done(),
        |s| {
            s.helper("b", "late").done();
        },
    ),
    ("a_pth_file_that_adds_nothing", nothing, |s| {
        fs::write(s.site().join("nothing.pth"), "# import this\n/nowhere\n").unwrap();
    }),
    ("a_module_of_the_standard_library_that_is_not_imported", nothing, |s| s.standard("turtle", "changed")),
    ("another_library_on_ld_library_path", nothing, |s| s.write("libraries/libunrelated.so", "x").done()),
    ("log_files", nothing, |s| {
        s.write("home/ascend/log/debug/plog/plog-1.log", "x").done();
    }),
    ("a_script_that_starts_python_is_said_otherwise", |s| s.script("exec"), |s| s.script(": comment; exec")),
];

fn nothing(_: &mut Scene) {}

pub(crate) fn trials() -> Vec<Trial> {
    let has_python = toolkit::python().is_some();
    let trial = |(name, before, change): &Mutation, matters: bool| {
        let (before, change) = (*before, *change);
        // Bytecode and interpreters come to `opc` by other ways than to workers.
        let both = ["bytecode", "interpreter", "script", "time"].iter().any(|word| name.contains(word));
        let kind = if matters { "matters" } else { "cannot_matter" };
        let run = move || {
            let drivers = if both { &["workers", "process"][..] } else { &["workers"] };
            drivers.iter().for_each(|driver| judge(driver, before, change, matters));
            Ok::<(), Failed>(())
        };
        let is_played = has_python && is_played(name);
        Trial::test(format!("{kind}::{name}"), run).with_ignored_flag(!is_played)
    };
    let matter = MATTER.iter().map(|mutation| trial(mutation, true));
    let needless = NEEDLESS.iter().map(|mutation| trial(mutation, false));
    let more: [(&str, fn()); 2] =
        [("what_is_in_no_key_is_refused", refused), ("a_record_is_not_needed", without_a_record)];
    let more = more.map(|(name, run)| {
        let run = move || {
            run();
            Ok::<(), Failed>(())
        };
        Trial::test(name, run).with_ignored_flag(!has_python)
    });
    matter.chain(needless).chain(more).collect()
}

/// A build, a change, a build; and a build that knows nothing of before.
fn judge(driver: &'static str, before: fn(&mut Scene), change: fn(&mut Scene), matters: bool) {
    // What cannot matter to a worker must not come back by way of `opc` either.
    let mut scene = if matters { Scene::new(driver) } else { Scene::complete(driver) };
    before(&mut scene);
    assert_eq!(scene.build("cache").0, 1, "{driver}: the first build");
    change(&mut scene);
    let (compiled, kernels) = scene.build("cache");
    assert_eq!(compiled, u64::from(matters), "{driver}: compiled after the change");
    let fresh = scene.build("fresh").1;
    // Kernels of before are still in the directory of the first.
    let last = fresh.first().unwrap();
    assert!(kernels.contains(last), "{driver}: stale: {:?} without {:?}", names(&kernels), last.0);
}

fn names(kernels: &[(String, Vec<u8>)]) -> Vec<&str> {
    kernels.iter().map(|(name, _)| name.as_str()).collect()
}

/// What a compile reads that nothing announces.
fn refused() {
    let scene = Scene::new("workers");
    scene.write("secret/table.txt", "one");
    let path = scene.place.path("secret/table.txt").display().to_string();
    scene.operator(&format!("global GENERATES; GENERATES = open('{path}').read()"));
    let ran = scene.run("cache").ended_with(1);
    assert!(ran.stdout.contains("secret/table.txt") && ran.stdout.contains("--toolchain-input"), "{ran:?}");
    assert!(scene.place.entries().is_empty(), "{ran:?}");
    // A module whose name only running tells.
    let scene = Scene::new("workers");
    scene.helper("a", "one").operator("__import__('hel' + 'per')");
    let ran = scene.run("cache").ended_with(1);
    assert!(ran.stdout.contains("helper.py"), "{ran:?}");
}

/// A damaged record, or one of another user, is made again.
fn without_a_record() {
    let scene = Scene::new("workers");
    assert_eq!(scene.build("cache").0, 1);
    let is_record = |path: &PathBuf| path.to_string_lossy().contains("ascend-python-");
    let records: Vec<_> =
        crate::common::files(&scene.place.path("tmp-cache")).into_iter().filter(is_record).collect();
    assert_eq!(records.len(), 1, "{records:?}");
    let text = fs::read(&records[0]).unwrap();
    for damaged in [&b"{}"[..], &text[..text.len() / 2], &[]] {
        fs::write(&records[0], damaged).unwrap();
        assert_eq!(scene.build("cache").0, 0);
        assert!(fs::read(&records[0]).unwrap().len() > text.len() / 2, "the record was not made again");
    }
}
