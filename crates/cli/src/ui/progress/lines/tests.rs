use opkeep::Event;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A build of five kernels, of which one is reused and two are being compiled by two threads.
fn build(began: Instant) -> BuildState {
    let mut state = BuildState::new(began);
    state.observe(&Event::Planned { operators: 5, kernels: 5 }, began);
    for kernel in ["conv2d_with_a_long_name_1234567890", "寬寬寬寬寬寬寬寬寬寬寬寬寬寬寬寬寬寬寬寬"]
    {
        state.observe(&Event::Started { kernel }, began);
    }
    state.observe(&Event::Waiting { kernel: "matmul" }, began);
    state
}

/// No line is wider than the terminal, whatever its size and the width of letters; with room, nothing is left out.
#[test]
fn lines_fit_into_each_terminal() {
    let began = Instant::now();
    let state = build(began);
    for width in 1..=120 {
        for height in 1..=6 {
            let lines = on_terminal(&state, began + SECOND * 65, (width, height));
            assert!(lines.len() <= height, "{width}x{height}: {lines:?}");
            assert!(lines.iter().all(|line| line.width() <= width), "{width}: {lines:?}");
        }
    }
    let lines = on_terminal(&state, began + SECOND * 65, (49, 24));
    assert_eq!(
        lines,
        [
            "0/5  1:05",
            "  conv2d_with_a_long_name_1234567890         1:05",
            "  寬寬寬寬寬寬寬寬寬寬寬寬寬寬寬寬寬寬寬寬   1:05",
            "  matmul                       waiting for others",
        ]
    );
    assert_eq!(on_terminal(&state, began, (49, 3))[2], "  and 2 more");
}

#[test]
fn times_are_short() {
    let times = [(900, "0.9 s"), (59_940, "59.9 s"), (65_000, "1:05"), (7_805_000, "2:10:05")];
    for (millis, text) in times {
        assert_eq!(duration(Duration::from_millis(millis)), text);
    }
}

/// A name of another user cannot control the terminal.
#[test]
fn names_are_escaped() {
    let (mut state, now) = (BuildState::new(Instant::now()), Instant::now());
    state.observe(&Event::Planned { operators: 1, kernels: 1 }, now);
    state.observe(&Event::Started { kernel: "a\n\u{1b}[2Jb" }, now);
    let lines = on_terminal(&state, now, (60, 9));
    assert!(lines[1].starts_with("  a\\n\\u{1b}[2Jb "), "{lines:?}");
    assert!(heartbeat(&state, now).contains("compiling a\\n\\u{1b}[2Jb (0.0 s)"));
}

#[test]
fn a_heartbeat_says_what_is_compiled() {
    let began = Instant::now();
    let state = build(began);
    assert_eq!(
        heartbeat(&state, began + SECOND * 30),
        "0 of 5 kernels after 30.0 s; compiling conv2d_with_a_long_name_1234567890 (30.0 s), \
         寬寬寬寬寬寬寬寬寬寬寬寬寬寬寬寬寬寬寬寬 (30.0 s); waiting for others: 1"
    );
}
