//! Collections beside processes that use the cache, and by processes that are killed. The program runs itself as the other
//! process. Its trials run one after the other: between fork and exec a child has all files of this process open, and open
//! files are not deleted.

#![expect(clippy::disallowed_methods, reason = "tests make caches by hand, and run themselves")]
#![expect(clippy::unwrap_used, reason = "these tests are functions without `#[test]`")]
#![expect(clippy::print_stdout, clippy::exit, reason = "the other process reports its state")]

#[path = "../common/mod.rs"]
mod common;

mod gc;

use libtest_mimic::Arguments;

/// The first argument of the other process.
const CHILD: &str = "--child";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, child, action, path, number] = arguments.as_slice()
        && child == CHILD
    {
        return gc::other_process(action, path.as_ref(), number);
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(1));
    libtest_mimic::run(&arguments, gc::trials()).exit();
}
