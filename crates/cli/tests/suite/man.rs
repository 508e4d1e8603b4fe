//! Man pages of all commands.
#![expect(clippy::disallowed_methods, reason = "tests look at files")]

use std::fs;

use crate::common::Place;

#[test]
fn each_command_has_a_page() {
    let place = Place::new();
    let json = place.run(&["man", "pages", "--format", "json"]).ended_with(0).json();
    let pages: Vec<&str> =
        json["pages"].as_array().unwrap().iter().map(|page| page.as_str().unwrap()).collect();
    for name in ["opkeep.1", "opkeep-build.1", "opkeep-bundle-export.1", "opkeep-remote-check.1"] {
        assert!(pages.contains(&name), "{pages:?}");
    }
    let text = |name: &str| fs::read_to_string(place.path("pages").join(name)).unwrap();
    assert!(text("opkeep.1").contains(".SH ENVIRONMENT\n") && text("opkeep-gc.1").contains(".SH EXAMPLES\n"));
    let once: Vec<String> = pages.iter().map(|name| text(name)).collect();
    place.run(&["man", "pages"]).ended_with(0);
    assert_eq!(once, pages.iter().map(|name| text(name)).collect::<Vec<_>>(), "the same each time");
}

/// What the command and its help advise shows a page, wherever the pages are.
#[test]
fn the_advice_shows_a_page() {
    let place = Place::new();
    let page = |args: &[&str]| {
        let mut command = std::process::Command::new("man");
        command.args(args).current_dir(place.dir.path());
        command.env("MANPAGER", "cat").env("MANWIDTH", "80").env("LC_ALL", "C").env_remove("MANPATH");
        // Some machines have no `man`, and containers often one that shows nothing.
        let output = command.output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_real =
            !text.contains("minimized") && !String::from_utf8_lossy(&output.stderr).contains("minimized");
        is_real.then(|| (output.status.success(), text))
    };
    for dir in ["share/man/man1", "pages", "a b/c", "."] {
        let ran = place.run(&["man", dir]).ended_with(0);
        let advice = ran.stdout.lines().nth(1).unwrap();
        let path = advice.strip_prefix("`man ").unwrap().strip_suffix("` shows the first one").unwrap();
        let path = path.trim_matches('\'');
        assert!(path.contains('/') && place.path(path).is_file(), "{advice}");
        if let Some((shows, text)) = page(&[path]) {
            assert!(
                shows && text.contains("opkeep(1)") && text.contains("reuse it everywhere"),
                "{advice}: {text}"
            );
        }
    }
    let help = place.run(&["man", "--help"]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        help.contains(
            "opkeep man ~/.local/share/man/man1 then `man -M ~/.local/share/man opkeep-build` shows"
        ),
        "{help}"
    );
    if let Some((shows, text)) = page(&["-M", "share/man", "opkeep-build"]) {
        assert!(shows && text.contains("opkeep-build"), "{text}");
    }
    place.run(&["--help"]).ended_with(0).prints("\n  man ");
}
