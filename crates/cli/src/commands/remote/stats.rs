//! `opkeep remote stats`: the number and the size of the objects of a remote cache.

use std::collections::BTreeMap;

use opkeep_cache::StoredKind;
use serde::Serialize;

use super::contents::{RemoteCache, RemoteUrl, Stored, Totals};
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, bytes, counted};

/// The details of stats.
const DETAILS: &str = "\
A plan is the set of kernels of one build. Its object is a counter of a few bytes, by which hosts
that wait see that there are new kernels of the plan. A bundle has all kernels of a plan. A lease
says that a host compiles a kernel at this moment. Hits and compiles are in the statistics of each
host's store: opkeep stats.

Exit code 0: done; 2: the engine cannot be reached, refuses these credentials, or has no listing.

Examples:
  opkeep remote stats redis://HOST
    counts the kernels, bundles and leases";

/// Report the kernels, bundles and leases of a remote cache
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: RemoteUrl,
}

/// The result as JSON.
#[derive(Serialize)]
struct StatsOutput {
    url: String,
    namespace: String,
    objects: u64,
    bytes: u64,
    not_recognised: u64,
    targets: Vec<TargetOutput>,
}

#[derive(Serialize)]
struct TargetOutput {
    target: String,
    kernels: u64,
    signed: u64,
    signers: Vec<SignerOutput>,
    entries: KindOutput,
    bundles: KindOutput,
    leases: KindOutput,
    plans: KindOutput,
}

/// The kernels that one key signed.
#[derive(Serialize)]
struct SignerOutput {
    signer: String,
    kernels: u64,
}

/// Objects of one kind.
#[derive(Clone, Copy, Default, Serialize)]
struct KindOutput {
    objects: u64,
    bytes: u64,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let remote = RemoteCache::open(&args.remote, output)?;
    let contents = remote.contents(output)?;
    let (mut text, mut targets) = (Text::of(remote.title()), Vec::new());
    for (name, stored) in &contents.targets {
        let target = target_output(name, stored);
        text.line(name);
        text.line(format_args!("  kernels  {}", kernels_text(&target)));
        for (name, kind) in
            [("bundles", target.bundles), ("leases ", target.leases), ("plans  ", target.plans)]
        {
            text.line(format_args!("  {name}  {}, {}", kind.objects, bytes(kind.bytes)));
        }
        targets.push(target);
    }
    let all = Totals::of(contents.targets.values().flatten());
    let others = match contents.others() {
        0 => String::new(),
        count => format!(", and {}", counted(count, "other object")),
    };
    text.line(format_args!("in all {}, {}{others}", counted(all.objects, "object"), bytes(all.bytes)));
    let json = StatsOutput {
        url: remote.engine.location().to_owned(),
        namespace: remote.namespace.to_string(),
        objects: all.objects,
        bytes: all.bytes,
        not_recognised: contents.others(),
        targets,
    };
    output.print_result(&text, &json)?;
    Ok(ExitStatus::Success)
}

fn target_output(target: &str, stored: &[Stored]) -> TargetOutput {
    let kind = |is_kind: fn(&StoredKind) -> bool| {
        let Totals { objects, bytes, .. } = Totals::of(stored.iter().filter(|stored| is_kind(&stored.kind)));
        KindOutput { objects, bytes }
    };
    let mut signers: BTreeMap<&str, Vec<&Stored>> = BTreeMap::new();
    for object in stored {
        if let StoredKind::Entry { signer: Some(signer), .. } = &object.kind {
            signers.entry(signer).or_default().push(object);
        }
    }
    let kernels_of = |objects: &[&Stored]| Totals::of(objects.iter().copied()).kernels;
    let signed: Vec<&Stored> = signers.values().flatten().copied().collect();
    let signer = |(signer, objects): (&&str, &Vec<&Stored>)| SignerOutput {
        signer: (*signer).to_owned(),
        kernels: kernels_of(objects),
    };
    TargetOutput {
        target: target.to_owned(),
        kernels: Totals::of(stored).kernels,
        signed: kernels_of(&signed),
        signers: signers.iter().map(signer).collect(),
        entries: kind(|kind| matches!(kind, StoredKind::Entry { .. })),
        bundles: kind(|kind| matches!(kind, StoredKind::Bundle { .. })),
        leases: kind(|kind| matches!(kind, StoredKind::Lease { .. })),
        plans: kind(|kind| matches!(kind, StoredKind::Progress { .. })),
    }
}

/// Returns the number of kernels. A kernel that several keys signed, or that is there without a signature as well, is in several objects.
fn kernels_text(target: &TargetOutput) -> String {
    let TargetOutput { kernels, signed, signers, entries, .. } = target;
    let objects = match entries.objects == *kernels {
        true => String::new(),
        false => format!(" in {}", counted(entries.objects, "object")),
    };
    let signed = match (signed, signers.len()) {
        (0, _) => String::new(),
        (_, 1) => format!(", {signed} signed"),
        (_, keys) => format!(", {signed} signed by {}", counted(keys, "key")),
    };
    format!("{kernels}{objects}, {}{signed}", bytes(entries.bytes))
}
