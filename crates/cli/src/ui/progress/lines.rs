//! The state of a build as lines of text.

use std::time::{Duration, Instant};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::state::{BuildState, Running};
use crate::ui::text::one_line;

/// The width of the bar, and the narrowest line that has one.
const BAR: (usize, usize) = (20, 70);
/// The narrowest name of a kernel: a shorter part of it says nothing.
const NAME: usize = 12;

/// Returns the lines that a terminal shows: the sum, and a line for each compile. No line is wider than `width`, and there are no more
/// than `height`.
pub(super) fn on_terminal(state: &BuildState, now: Instant, (width, height): (usize, usize)) -> Vec<String> {
    let mut lines = vec![cut(&head(state, now, width), width)];
    let rows = height.saturating_sub(1);
    let running = state.running().len();
    let waiting = state.waiting().len();
    let shown = if running + waiting > rows { rows.saturating_sub(1) } else { rows };
    lines.extend(state.running().take(shown).map(|running| {
        let cause = state.cause(&running.kernel);
        row(running, cause, now, width)
    }));
    let left = shown.saturating_sub(running);
    lines.extend(state.waiting().take(left).map(|kernel| {
        let tail = "waiting for others";
        named(kernel, None, tail, width)
    }));
    match running + waiting - (lines.len() - 1) {
        more @ 1.. if rows > 0 => lines.push(cut(&format!("  and {more} more"), width)),
        _ => {}
    }
    lines
}

/// Returns the line that says that a build goes on.
pub(super) fn heartbeat(state: &BuildState, now: Instant) -> String {
    let running: Vec<String> = state
        .running()
        .take(2)
        .map(|running| {
            let passed = now.saturating_duration_since(running.began);
            format!("{} ({})", one_line(&running.kernel), duration(passed))
        })
        .collect();
    let elapsed = duration(state.elapsed(now));
    if state.total() == 0 {
        return format!("planning since {elapsed}");
    }
    let mut text = format!("{} after {elapsed}", sum(state));
    if !running.is_empty() {
        text.push_str(&format!("; compiling {}", running.join(", ")));
        if let more @ 1.. = state.running().len() - running.len() {
            text.push_str(&format!(" and {more} more"));
        }
    }
    if let waiting @ 1.. = state.waiting().len() {
        text.push_str(&format!("; waiting for others: {waiting}"));
    }
    if let Some(left) = state.remaining(now) {
        text.push_str(&format!("; about {} left", duration(left)));
    }
    text
}

/// `[13/56]`: how many kernels have ended.
pub(super) fn position(state: &BuildState) -> String {
    format!("[{}/{}]", state.counts().done(), state.total())
}

/// `4.2 s`, `1:05`, `2:10:00`.
pub(super) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, _) => format!("{:.1} s", time.as_secs_f64()),
        (0, minutes, seconds) => format!("{minutes}:{seconds:02}"),
        (hours, minutes, seconds) => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// `13 of 56 kernels: 10 reused, 2 compiled, 1 failed`.
fn sum(state: &BuildState) -> String {
    let parts = parts(state);
    let colon = if parts.is_empty() { "" } else { ": " };
    let noun = if state.total() == 1 { "kernel" } else { "kernels" };
    format!("{} of {} {noun}{colon}{}", state.counts().done(), state.total(), parts.join(", "))
}

fn parts(state: &BuildState) -> Vec<String> {
    let counts = state.counts();
    let parts = [
        (counts.reused, "reused"),
        (counts.compiled, "compiled"),
        (counts.shared, "shared"),
        (counts.failed, "failed"),
    ];
    parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
}

/// The first line: the position, and then what has room, the most important first.
fn head(state: &BuildState, now: Instant, width: usize) -> String {
    if state.total() == 0 {
        return format!("planning  {}", duration(state.elapsed(now)));
    }
    let mut line = format!("{}/{}", state.counts().done(), state.total());
    if width >= BAR.1 {
        let done = BAR.0 * state.counts().done().min(state.total()) / state.total();
        line = format!("[{}{}] {line}", "#".repeat(done), "-".repeat(BAR.0 - done));
    }
    let left = state.remaining(now).map(|left| format!("about {} left", duration(left)));
    let elapsed = duration(state.elapsed(now));
    let counts = parts(state).join(", ");
    // What is dropped first comes first.
    let pieces = [Some(counts), Some(elapsed), left];
    let fits = |from: usize| {
        let rest: Vec<&str> =
            pieces[from..].iter().flatten().map(String::as_str).filter(|piece| !piece.is_empty()).collect();
        let all = std::iter::once(line.as_str()).chain(rest).collect::<Vec<_>>().join("  ");
        (all.width() <= width).then_some(all)
    };
    (0..pieces.len()).find_map(fits).unwrap_or(line)
}

fn row(running: &Running, cause: Option<&str>, now: Instant, width: usize) -> String {
    let passed = duration(now.saturating_duration_since(running.began));
    let tail = match running.expected {
        Some(expected) => format!("{passed} of about {}", duration(expected)),
        None => passed,
    };
    named(&running.kernel, cause, &tail, width)
}

/// A line of a kernel: its name, cut to the width, `note` if there is room for all of it, and `tail` at the right end of the line.
fn named(kernel: &str, note: Option<&str>, tail: &str, width: usize) -> String {
    let name = one_line(kernel);
    let room = width.saturating_sub(tail.width() + 4);
    if room < NAME {
        return cut(&format!("  {name}"), width);
    }
    let noted = note.map(|note| format!("{name}  {}", one_line(note))).filter(|noted| noted.width() <= room);
    let name = noted.unwrap_or_else(|| cut(&name, room));
    let blanks = room - name.width();
    format!("  {name}{}  {tail}", " ".repeat(blanks))
}

/// Returns the beginning of a line that is not wider than `width`, with a mark if more follows.
fn cut(line: &str, width: usize) -> String {
    if line.width() <= width {
        return line.to_owned();
    }
    let mut text = String::new();
    let mut used = 1;
    for letter in line.chars() {
        used += letter.width().unwrap_or(0);
        if used > width {
            break;
        }
        text.push(letter);
    }
    text.push('…');
    text
}

#[cfg(test)]
mod tests;
