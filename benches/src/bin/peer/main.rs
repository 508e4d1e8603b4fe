//! The store as a contender beside other caches, in a harness that measures them all in the same way.
//!
//! ```text
//! peer <store|store-info> <put|get|scan|evict|worker> --root DIR [--n N] [--start I] [--lookups L] [--seed S]
//!                         [--target-bytes B] [--id I] [--seconds S] [--start-at UNIX]
//! ```
//!
//! The harness starts a process for each operation and reads one JSON object from its output. Times are taken here,
//! around the one call, in microseconds, without generating the entry. Everything goes through the store's public
//! interface, with every check on. `store` does the same as a build: all three bodies are read, `.json` and `.o` are
//! checked by SHA-256, and the `.info`, which a build does not use, by the checksum that covers it. `store-info`
//! requests the `.info`, too, which is then also checked by SHA-256.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the harness reads the one, and people the other"
)]

mod entries;
mod operations;
mod worker;

use std::process::ExitCode;

use operations::Options;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("peer: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<serde_json::Value, String> {
    let [system, operation, options @ ..] = arguments else {
        return Err(
            "usage: peer <store|store-info> <put|get|scan|evict|worker> --root DIR [options]".to_owned()
        );
    };
    let with_info = match system.as_str() {
        "store" => false,
        "store-info" => true,
        other => return Err(format!("found `{other}`, expected `store` or `store-info`")),
    };
    let options = Options::parse(options, with_info)?;
    match operation.as_str() {
        "put" => operations::put(&options),
        "get" => operations::get(&options),
        "scan" => operations::scan(&options),
        "evict" => operations::evict(&options),
        "worker" => worker::worker(&options),
        other => Err(format!("found `{other}`, expected put, get, scan, evict or worker")),
    }
}
