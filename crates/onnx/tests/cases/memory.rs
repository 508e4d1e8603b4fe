//! Files that are made to exhaust memory. The allocator counts the memory.

#![expect(clippy::disallowed_methods, reason = "these tests write the files that are read")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are functions without the attribute"
)]

use std::path::PathBuf;

use crate::common::wire::Message;
use crate::common::{FLOAT, INT64, model, tensor};
use libtest_mimic::Trial;
use opkeep_onnx::{OnnxError, Options, read, read_tensor};
use opkeep_testkit::{Counting, most_bytes};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, fn()); 6] = [
        ("memory_is_bounded_by_the_files_size", memory_is_bounded_by_the_files_size),
        ("numbers_in_one_piece_are_counted_one_by_one", numbers_in_one_piece_are_counted_one_by_one),
        ("elements_are_not_copied", elements_are_not_copied),
        (
            "a_text_that_is_there_again_and_again_is_kept_once",
            a_text_that_is_there_again_and_again_is_kept_once,
        ),
        ("depth_is_no_danger", depth_is_no_danger),
        ("tensors_files_are_bounded_too", tensors_files_are_bounded_too),
    ];
    let trial = |(name, test): (&str, fn())| {
        Trial::test(format!("memory::{name}"), move || {
            test();
            Ok(())
        })
    };
    tests.into_iter().map(trial).collect()
}

/// The allowance for any file, and the additional allowance for each of its bytes.
const ALLOWANCE: usize = 64 << 20;
const RATIO: usize = 4;

/// Paths, messages and the like.
const LITTLE: usize = 64 << 10;

struct File {
    _directory: tempfile::TempDir,
    path: PathBuf,
    bytes: usize,
}

fn file(content: &Message) -> File {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hostile.onnx");
    std::fs::write(&path, &content.0).unwrap();
    File { _directory: directory, path, bytes: content.0.len() }
}

/// Reads a model; returns the largest amount of memory in use meanwhile.
fn read_model(file: &File) -> (Result<(), OnnxError>, usize) {
    most_bytes(|| read(&file.path, &Options::default()).map(drop))
}

/// Whether a model was decoded, even if it is no valid network.
fn is_decoded(result: &Result<(), OnnxError>) -> bool {
    matches!(result, Ok(()) | Err(OnnxError::Model(_)))
}

/// A model in which `item` is repeated.
struct Bomb {
    name: &'static str,
    item: &'static [u8],
    around: fn(Message) -> Message,
}

fn in_graph(content: Message) -> Message {
    model(content)
}

fn in_node(content: Message) -> Message {
    model(Message::default().message(1, content))
}

fn in_attribute(content: Message) -> Message {
    in_node(Message::default().message(5, content))
}

fn in_initializer(content: Message) -> Message {
    model(Message::default().message(5, content))
}

fn in_shape(content: Message) -> Message {
    let tensor_type = Message::default().message(2, content);
    let value = Message::default().message(2, Message::default().message(1, tensor_type));
    model(Message::default().message(11, value))
}

fn in_model(content: Message) -> Message {
    Message(model(Message::default()).0.into_iter().chain(content.0).collect())
}

/// Every field that takes more memory than its size in the file.
const BOMBS: [Bomb; 23] = [
    Bomb { name: "opset imports", item: &[0x42, 0], around: in_model },
    Bomb { name: "functions", item: &[0xca, 1, 0], around: in_model },
    Bomb { name: "graphs, each with a node", item: &[0x3a, 2, 0x0a, 0], around: in_model },
    Bomb { name: "nodes", item: &[0x0a, 0], around: in_graph },
    Bomb { name: "nodes, each with an attribute", item: &[0x0a, 2, 0x2a, 0], around: in_graph },
    Bomb { name: "initializers", item: &[0x2a, 0], around: in_graph },
    Bomb { name: "inputs", item: &[0x5a, 0], around: in_graph },
    Bomb { name: "outputs", item: &[0x62, 0], around: in_graph },
    Bomb { name: "sparse initializers", item: &[0x7a, 0], around: in_graph },
    Bomb { name: "inputs of a node", item: &[0x0a, 0], around: in_node },
    Bomb { name: "outputs of a node", item: &[0x12, 1, b'x'], around: in_node },
    Bomb { name: "attributes", item: &[0x2a, 0], around: in_node },
    Bomb { name: "attributes with a tensor", item: &[0x2a, 2, 0x2a, 0], around: in_node },
    Bomb { name: "attributes with a number", item: &[0x2a, 2, 0x40, 0], around: in_node },
    Bomb { name: "strings", item: &[0x4a, 0], around: in_attribute },
    Bomb { name: "numbers", item: &[0x40, 0], around: in_attribute },
    Bomb { name: "packed numbers", item: &[0x42, 1, 0], around: in_attribute },
    Bomb { name: "sizes", item: &[0x08, 0], around: in_initializer },
    Bomb { name: "pieces of int64_data", item: &[0x3a, 0], around: in_initializer },
    Bomb { name: "pieces of float_data", item: &[0x22, 4, 0, 0, 0x80, 0x3f], around: in_initializer },
    Bomb { name: "external data", item: &[0x6a, 0], around: in_initializer },
    Bomb { name: "dimensions", item: &[0x0a, 0], around: in_shape },
    Bomb { name: "named dimensions", item: &[0x0a, 3, 0x12, 1, b'n'], around: in_shape },
];

impl Bomb {
    fn of(&self, items: usize) -> File {
        file(&(self.around)(Message::default().repeat(self.item, items)))
    }

    /// About the largest number of items that is accepted, found by a file with so many that it is refused.
    fn largest(&self) -> usize {
        // Small items must be many.
        let (file, (result, most)) = [1 << 20, 12 << 20]
            .into_iter()
            .map(|items| self.of(items))
            .map(|file| (read_model(&file), file))
            .find(|((result, _), _)| matches!(result, Err(OnnxError::Exhausting { .. })))
            .map(|(read, file)| (file, read))
            .unwrap_or_else(|| panic!("{}: there is no limit", self.name));
        let Err(OnnxError::Exhausting { limit, at, bytes, .. }) = result else {
            panic!("{}: {result:?}", self.name)
        };
        assert_eq!(bytes, file.bytes as u64);
        assert!(most <= file.bytes + LITTLE, "{}: {most} bytes for a file that is refused", self.name);
        // The counted size of the accepted items, and so of one.
        let counted = limit as f64 / (at as f64 / self.item.len() as f64);
        let ratio = (RATIO - 1) * self.item.len();
        (ALLOWANCE as f64 / (counted - ratio as f64) * 0.99) as usize
    }
}

fn memory_is_bounded_by_the_files_size() {
    for bomb in &BOMBS {
        let file = bomb.of(bomb.largest());
        let (result, most) = read_model(&file);
        assert!(!matches!(result, Err(OnnxError::Exhausting { .. })), "{}: {result:?}", bomb.name);
        let limit = RATIO * file.bytes + ALLOWANCE;
        assert!(most <= limit, "{}: {most} bytes, expected {limit} for {}", bomb.name, file.bytes);
        // The counted size is close to the actual one; if it were much larger, valid files would be refused.
        assert!(most >= limit / 3, "{}: {most} bytes of {limit}", bomb.name);
    }
}

fn numbers_in_one_piece_are_counted_one_by_one() {
    // A byte each in the file, eight in memory, twice as much in a growing list.
    for (around, field) in [(in_attribute as fn(Message) -> Message, 8), (in_initializer, 1)] {
        let bomb = |count: usize| file(&around(Message::default().bytes(field, vec![1; count])));
        let (result, most) = read_model(&bomb(4 << 20));
        assert!(matches!(result, Err(OnnxError::Exhausting { .. })), "{result:?}");
        assert!(most <= (4 << 20) + LITTLE);
        let file = bomb(3 << 20);
        let (result, most) = read_model(&file);
        assert!(!matches!(result, Err(OnnxError::Exhausting { .. })), "{result:?}");
        assert!(most <= RATIO * file.bytes + ALLOWANCE, "{most}");
    }
}

fn elements_are_not_copied() {
    let elements = 8 << 20;
    let initializer = tensor("w", FLOAT, &[elements as u64]);
    let contents = [
        initializer.clone().bytes(9, vec![7; 4 * elements]),
        initializer.bytes(4, vec![7; 4 * elements]),
        // A byte each: 64 MiB if they were numbers.
        tensor("w", INT64, &[elements as u64]).bytes(7, vec![7; elements]),
    ];
    for content in contents {
        let file = file(&in_graph(Message::default().message(5, content)));
        let (result, most) = read_model(&file);
        assert!(is_decoded(&result), "{result:?}");
        assert!(most <= file.bytes + LITTLE, "{most} bytes for {}", file.bytes);
    }
}

fn a_text_that_is_there_again_and_again_is_kept_once() {
    let name = Message::default().bytes(2, vec![b'n'; 1 << 20]);
    let file = file(&in_graph(
        (0..64).fold(Message::default(), |graph, _| Message([graph.0, name.0.clone()].concat())),
    ));
    let (result, most) = read_model(&file);
    assert!(is_decoded(&result), "{result:?}");
    assert!(most <= file.bytes + (2 << 20), "{most}");
}

fn depth_is_no_danger() {
    // Attributes with graphs, and types of sequences of sequences.
    let deep = |path: &[u32]| {
        let mut inner = Message::default();
        for depth in 0..20_000 {
            inner = Message::default().message(path[depth % path.len()], inner);
        }
        inner
    };
    let attributes = file(&in_attribute(deep(&[1, 6, 5])));
    assert!(is_decoded(&read_model(&attributes).0));
    let value = Message::default().message(2, deep(&[1, 4]));
    assert!(is_decoded(&read_model(&file(&in_graph(Message::default().message(11, value)))).0));
    // Groups.
    let groups = file(&in_model(Message::default().repeat(&[0x0b], 1 << 20)));
    assert!(matches!(read_model(&groups).0, Err(OnnxError::Malformed { .. })));
}

fn tensors_files_are_bounded_too() {
    let read = |content: Message| {
        let file = file(&content);
        let (result, most) = most_bytes(|| read_tensor(&file.path));
        (result.unwrap_err(), most, file.bytes)
    };
    let (error, most, bytes) = read(tensor("t", FLOAT, &[]).repeat(&[0x6a, 0], 8 << 20));
    assert!(matches!(error, OnnxError::Exhausting { .. }), "{error}");
    assert!(most <= bytes + LITTLE, "{most}");
    // Small files that announce large sizes and headers.
    let (error, most, _) = read(tensor("t", FLOAT, &[1 << 40]).bytes(9, [0; 16]));
    assert!(matches!(error, OnnxError::TensorFile { .. }) && most < LITTLE, "{error}: {most}");
    let array =
        b"\x93NUMPY\x01\0\x46\0{'descr': '<f8', 'fortran_order': True, 'shape': (1099511627776,), }\n";
    let (error, most, _) = read(Message(array.to_vec()));
    assert!(matches!(error, OnnxError::Npy { .. }) && most < LITTLE, "{error}: {most}");
}
