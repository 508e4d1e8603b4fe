//! The blocks of code of a page, and the marks for its test, which are comments that no reader sees:
//!
//! - `<!-- run: COMMANDS -->`: what the page needs and does not show, such as an input;
//! - `<!-- set up: NAME -->`: the same, made by [`super::set_up`];
//! - `<!-- not run: REASON -->`: the next block is not run;
//! - `<!-- needs: PROGRAM -->`: the next block is run where there is such a program;
//! - `<!-- exit status: 0 1 -->`: the exit status of each command of the next block, in place of 0.

/// A part of a page, in its order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Run { line: usize, commands: String },
    SetUp { line: usize, name: String },
    Block(Block),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    /// The line of its first text.
    pub(crate) line: usize,
    pub(crate) language: String,
    pub(crate) text: String,
    pub(crate) not_run: Option<String>,
    pub(crate) needs: Option<String>,
    pub(crate) statuses: Vec<i32>,
}

/// Reads a page. A comment that is no mark is an error, since it may be a misspelt one.
pub(crate) fn items(page: &str) -> Result<Vec<Item>, String> {
    let mut items = Vec::new();
    let mut next = Block::default();
    let mut lines = (1..).zip(page.lines());
    while let Some((line, text)) = lines.next() {
        if let Some(mark) = text.trim().strip_prefix("<!--") {
            let mut mark = mark.to_owned();
            while !mark.contains("-->") {
                let (_, more) = lines.next().ok_or("a comment does not end")?;
                mark.push('\n');
                mark.push_str(more);
            }
            let mark = mark.split("-->").next().unwrap_or_default().trim();
            let (kind, value) = mark.split_once(": ").unwrap_or((mark, ""));
            let value = value.trim().to_owned();
            match kind {
                "run" => items.push(Item::Run { line, commands: value }),
                "set up" => items.push(Item::SetUp { line, name: value }),
                "not run" => next.not_run = Some(value),
                "needs" => next.needs = Some(value),
                "exit status" => {
                    let statuses = value.split(' ').map(str::parse).collect::<Result<_, _>>();
                    next.statuses = statuses.map_err(|error| format!("line {line}: `{value}`: {error}"))?;
                }
                _ => return Err(format!("line {line}: `{mark}` is no mark of a test")),
            }
            continue;
        }
        let marks = text.bytes().take_while(|byte| *byte == b'`').count();
        if marks < 3 {
            continue;
        }
        let mut block =
            Block { line: line + 1, language: text[marks..].trim().to_owned(), ..std::mem::take(&mut next) };
        for (_, text) in lines.by_ref() {
            if text.starts_with(&"`".repeat(marks)) && text.trim_start_matches('`').is_empty() {
                break;
            }
            block.text.push_str(text);
            block.text.push('\n');
        }
        items.push(Item::Block(block));
    }
    match next {
        Block { not_run: None, needs: None, statuses, .. } if statuses.is_empty() => Ok(items),
        _ => Err("the last mark belongs to no block".to_owned()),
    }
}

/// A command of a block in the language `console`, and its output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Example {
    pub(crate) line: usize,
    pub(crate) command: String,
    pub(crate) output: String,
}

impl Block {
    /// The commands of a `console` block: they begin with `$ `, and one that ends in a backslash goes on in the next line.
    pub(crate) fn examples(&self) -> Result<Vec<Example>, String> {
        let mut examples: Vec<Example> = Vec::new();
        let mut goes_on = false;
        for (line, text) in (self.line..).zip(self.text.lines()) {
            match (text.strip_prefix("$ "), examples.last_mut()) {
                (_, Some(last)) if goes_on => last.command.push_str(&format!("\n{text}")),
                (Some(command), _) => {
                    examples.push(Example { line, command: command.to_owned(), output: String::new() });
                }
                (None, Some(last)) => last.output.push_str(&format!("{text}\n")),
                (None, None) => return Err(format!("line {line}: `{text}` is the output of no command")),
            }
            goes_on = (text.starts_with("$ ") || goes_on) && text.ends_with('\\');
        }
        Ok(examples)
    }
}

#[test]
fn a_page_is_a_sequence_of_blocks_and_marks() {
    let page = "# A\n<!-- run: ln -s a b -->\n```sh\nls\n```\n<!-- not run: needs CANN -->\n```console\n$ a \\\n b\nc\n$ d\n```\n<!-- exit status: 0 1 -->\n````text\n```\n````\n";
    let read = items(page).unwrap();
    assert_eq!(read[0], Item::Run { line: 2, commands: "ln -s a b".to_owned() });
    let blocks: Vec<&Block> = read
        .iter()
        .filter_map(|item| match item {
            Item::Block(block) => Some(block),
            _ => None,
        })
        .collect();
    assert_eq!((blocks[0].line, blocks[0].language.as_str(), blocks[0].text.as_str()), (4, "sh", "ls\n"));
    assert_eq!((blocks[1].not_run.as_deref(), blocks[0].not_run.as_deref()), (Some("needs CANN"), None));
    let examples = blocks[1].examples().unwrap();
    assert_eq!((examples[0].command.as_str(), examples[0].output.as_str()), ("a \\\n b", "c\n"));
    assert_eq!((examples[1].line, examples.len()), (11, 2));
    assert_eq!((blocks[2].text.as_str(), &blocks[2].statuses[..]), ("```\n", &[0, 1][..]));
}

#[test]
fn a_misspelt_mark_is_an_error() {
    assert!(items("<!-- notrun: needs CANN -->\n```sh\n```\n").unwrap_err().contains("`notrun: needs CANN`"));
    assert!(items("```sh\n```\n<!-- not run: needs CANN -->\n").is_err());
    let block = Block { text: "output\n".to_owned(), ..Block::default() };
    assert!(block.examples().unwrap_err().contains("is the output of no command"));
}
