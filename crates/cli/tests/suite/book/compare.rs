//! The output on a page beside that of the command. What differs between machines and runs is alike: times, sizes, rates,
//! digests. `...` stands for any text in a line, and in a line by itself for any lines.

const TIMES: [&str; 5] = ["ns", "us", "ms", "s", "min"];
const SIZES: [&str; 5] = ["byte", "bytes", "KiB", "MiB", "GiB"];
const PUNCTUATION: [char; 7] = [',', ';', ':', '(', ')', '.', '`'];

/// Whether the output is what the page says.
pub(crate) fn is_alike(expected: &str, found: &str) -> bool {
    let lines = |text: &str| text.trim_end().lines().map(normal).collect::<Vec<_>>();
    lines_match(&lines(expected), &lines(found))
}

fn lines_match(expected: &[String], found: &[String]) -> bool {
    match expected {
        [] => found.is_empty(),
        [any, rest @ ..] if any == "..." => {
            (0..=found.len()).any(|skipped| lines_match(rest, &found[skipped..]))
        }
        [line, rest @ ..] => match found {
            [first, others @ ..] => line_matches(line, first) && lines_match(rest, others),
            [] => false,
        },
    }
}

fn line_matches(expected: &str, found: &str) -> bool {
    let mut parts = expected.split("...");
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = found.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// The line of an output as it is on each machine and in each run, with its indent.
pub(crate) fn steady(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    format!("{}{}", &line[..indent], normal(line))
}

/// The line with one space between words, and a name in place of what varies.
fn normal(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut shown = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let unit = words.get(at + 1).map(|next| next.trim_end_matches(PUNCTUATION));
        let is_number = bare(word).parse::<f64>().is_ok();
        let kind = match unit {
            Some(unit) if is_number && TIMES.contains(&unit) => Some("TIME"),
            Some(unit) if is_number && SIZES.contains(&unit) => Some("SIZE"),
            _ => None,
        };
        match kind {
            Some(kind) => {
                shown.push(format!("{}{kind}{}", start(word), end(words[at + 1])));
                at += 2;
            }
            None => {
                shown.push(word_of(word, is_number));
                at += 1;
            }
        }
    }
    shown.join(" ")
}

fn word_of(word: &str, is_number: bool) -> String {
    let inner = bare(word);
    let is_hex =
        inner.len() >= 12 && inner.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let is_date = |marks: [(usize, u8); 2], length: usize| {
        let is_mark = |at: usize| marks.iter().find(|(place, _)| *place == at).map(|(_, mark)| *mark);
        let fits = |(at, byte): (usize, u8)| is_mark(at).map_or(byte.is_ascii_digit(), |mark| mark == byte);
        inner.len() == length && inner.bytes().enumerate().all(fits)
    };
    let shown = match () {
        () if is_date([(4, b'-'), (7, b'-')], 10) => "DATE",
        () if is_date([(2, b':'), (5, b':')], 8) => "CLOCK",
        () if is_number && inner.contains('.') => "NUMBER",
        () if is_hex => "DIGEST",
        () => return without_stamps(word),
    };
    format!("{}{shown}{}", start(word), end(word))
}

/// The word with names in place of the time and the process in the name of a quarantine, `20261122T092530.540Z-27395`, and of
/// the hash in the name of a kernel, which depends on the compiler.
fn without_stamps(word: &str) -> String {
    let is_stamp = |part: &str| {
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        part.contains('T') && part.contains("Z-") && digits > 14 && part.len() < digits + 6
    };
    let is_key = |part: &str| part.len() >= 64 && part.bytes().take(64).all(|byte| byte.is_ascii_hexdigit());
    let is_shard = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_hash = |part: &str| part.len() >= 15 && part.bytes().all(|byte| byte.is_ascii_digit());
    let name = |part: &str| {
        let parts = part.split('_').map(|part| {
            let digits = part.trim_end_matches(|c: char| !c.is_ascii_digit());
            if is_hash(digits) { format!("HASH{}", &part[digits.len()..]) } else { part.to_owned() }
        });
        parts.collect::<Vec<_>>().join("_")
    };
    let has_shard = word.contains("/entries/");
    let parts = word.split('/').map(|part| match () {
        () if is_stamp(part) => "STAMP".to_owned(),
        () if is_key(part) => {
            let number = |c: char| c == '-' || c.is_ascii_digit();
            format!("KEY{}", part[64..].trim_start_matches(number))
        }
        () if has_shard && is_shard(part) => "KK".to_owned(),
        () => name(part),
    });
    parts.collect::<Vec<_>>().join("/")
}

fn bare(word: &str) -> &str {
    word.trim_matches(PUNCTUATION)
}

fn start(word: &str) -> &str {
    &word[..word.len() - word.trim_start_matches(PUNCTUATION).len()]
}

fn end(word: &str) -> &str {
    &word[word.trim_end_matches(PUNCTUATION).len()..]
}

#[test]
fn what_varies_is_alike_and_all_else_is_not() {
    let same = [
        ("2 kernels in 1.44 s", "2 kernels in 310 ms"),
        ("(12.2 KiB)\n", "(944 bytes)"),
        ("a ... c", "a b b c"),
        ("a\n...\nc", "a\nb\nb\nc"),
        ("a\n...\nb", "a\nb"),
        ("50.0 % hits", "33.3 % hits"),
        ("/data/q/20261122T092530.540Z-27395", "/data/q/20270101T000000.001Z-1"),
        ("`relu_3500156633204120585_2`", "`relu_165831875109056125_2`"),
        ("a/relu_3500156633204120585.json: x", "a/relu_165831875109056125.json: x"),
        ("key 3fe53db888455f63d79595a8", "key   00000db888455f63d79595a9"),
    ];
    for (expected, found) in same {
        assert!(is_alike(expected, found), "{expected}\n{found}");
    }
    let different = [
        ("2 kernels in 1.44 s", "3 kernels in 1.44 s"),
        ("a\nc", "a\nb\nc"),
        ("a", "a\nb"),
        ("a ... c", "a b d"),
        ("a\n...\nc", "a\nb"),
        ("1 KiB", "1 s"),
        ("square_6828127282093472436_1", "square_6828127282093472436_2"),
        ("relu_3500156633204120585.o", "relu_3500156633204120585.json"),
        ("relu_3500156633204120585", "tanh_3500156633204120585"),
    ];
    for (expected, found) in different {
        assert!(!is_alike(expected, found), "{expected}\n{found}");
    }
}
