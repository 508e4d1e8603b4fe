//! Descriptors that we may not redistribute, from the directory that `OPKEEP_CORPUS` names.

#![expect(clippy::disallowed_methods, reason = "tests on files that the environment points to")]

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use opkeep_descriptor::{
    Descriptor, ForeignName, Generation, InfoError, KernelName, fuzz, read_info, write_info,
};
use opkeep_testkit::corpus;
use serde_json::{Value, json};

/// Files whose names are hashes of another text: they were changed by hand.
const CHANGED_SINCE: [&str; 4] = [
    "Fused_Mul_RealDiv_Exp_fusion_2550894545544229730",
    "Fused_Mul_ReduceSum_split_13305325157517622155",
    "Fused_Mul_ReduceSum_split_1421551648179530053",
    "fused_sub_add",
];

/// Files under names that their frameworks did not give them.
const RENAMED: [&str; 1] = ["Fused_AddChain_more_split_9542740108961475159"];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = match corpus::directory() {
        None => vec![corpus::absent("descriptors")],
        Some(corpus) => trials(&corpus.join("mindspore")),
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trials(directory: &Path) -> Vec<Trial> {
    // A directory that cannot be listed has no files.
    let files = corpus::files_ending(directory, &["info"]).unwrap_or_default();
    let count = files.len();
    let mut trials: Vec<Trial> = files
        .into_iter()
        .map(|file| {
            let name = file.strip_prefix(directory).unwrap_or(&file).display().to_string();
            Trial::test(name, move || check(&file))
        })
        .collect();
    // A wrong directory is not a corpus in which everything passes.
    trials.push(Trial::test("the corpus has descriptors", move || match count {
        0 => Err("no .info file".into()),
        _ => Ok(()),
    }));
    let vectors = directory.join("hash-vectors.json");
    trials.push(Trial::test("hash-vectors.json", move || check_vectors(&vectors)));
    let older = directory.join("seeds-json/Square_2989580383048251395_7.info");
    trials.push(Trial::test("both names of the example of r1.2", move || check_both_names(&older)));
    trials
}

fn check(file: &Path) -> Result<(), Failed> {
    let bytes = std::fs::read(file)?;
    fuzz(&bytes);
    // Not every `.info` is a descriptor: `version.info` of an installation is no JSON.
    let Ok(document) = serde_json::from_slice::<Value>(&bytes) else {
        return match read_info(&bytes) {
            Err(InfoError::Json { .. } | InfoError::Empty) => Ok(()),
            other => Err(format!("not JSON, and yet {other:?}").into()),
        };
    };
    let descriptor = read_info(&bytes)?;
    check_round_trip(&bytes, &document, &descriptor)?;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    check_name(&stem, &descriptor)
}

fn check_round_trip(bytes: &[u8], document: &Value, descriptor: &Descriptor) -> Result<(), Failed> {
    let written = write_info(descriptor);
    if serde_json::from_str::<Value>(&written)? != *document {
        return Err("written otherwise than read".into());
    }
    if read_info(written.as_bytes())? != *descriptor {
        return Err("read otherwise when written".into());
    }
    // AKG's files are as AKG wrote them, except those that were indented by hand; all others were indented again.
    let one_line = bytes.iter().filter(|byte| **byte == b'\n').count() <= 1;
    if one_line && written.trim_end().as_bytes() != bytes.trim_ascii_end() {
        return Err("not the same bytes".into());
    }
    Ok(())
}

fn check_name(stem: &str, descriptor: &Descriptor) -> Result<(), Failed> {
    let generation = descriptor.envelope.generation.ok_or("no generation")?;
    let named_by = descriptor.named_by(stem);
    let expected = (!CHANGED_SINCE.contains(&stem)).then_some(generation);
    if named_by != expected.filter(|_| !RENAMED.contains(&stem)) {
        return Err(format!("named by {named_by:?}, expected {expected:?}").into());
    }
    let given = &descriptor.envelope.fusion_op_name;
    if descriptor.named_by(given) != expected {
        return Err(format!("`{given}` inside is not the expected one").into());
    }
    // Files may be renamed; what the framework looks for is the name inside.
    let made = descriptor.kernel_meta_stem()?;
    if (made.as_str() == given) != expected.is_some() {
        return Err(format!("named {made}").into());
    }
    Ok(())
}

/// Every vector through our reader: what was hashed is made a descriptor again, and named.
fn check_vectors(file: &Path) -> Result<(), Failed> {
    let vectors: Vec<Value> = serde_json::from_slice(&std::fs::read(file)?)?;
    let text = |vector: &Value, name: &str| -> Result<String, Failed> {
        Ok(vector[name].as_str().ok_or_else(|| format!("no {name} in {vector}"))?.to_owned())
    };
    let mut reproduced = 0;
    for vector in &vectors {
        let (kind, name) = (text(vector, "gen")?, text(vector, "file")?);
        let (document, generation) = document(&kind, &text(vector, "canonical")?)?;
        let descriptor = read_info(document.to_string().as_bytes())?;
        let name = name.trim_end_matches(".info");
        if descriptor.named_by(name) != Some(generation) {
            return Err(format!("{kind}: {name} is named by {:?}", descriptor.named_by(name)).into());
        }
        let number = ForeignName::parse(name).and_then(|name| name.number());
        if number.map(|number| number.to_string()) != Some(text(vector, "expect")?) {
            return Err(format!("{name} is not {}", vector["expect"]).into());
        }
        reproduced += 1;
    }
    if reproduced < 22 { Err(format!("only {reproduced} vectors").into()) } else { Ok(()) }
}

/// Returns a descriptor whose hashed text is `canonical`.
fn document(kind: &str, canonical: &str) -> Result<(Value, Generation), Failed> {
    Ok(match kind.split(' ').next() {
        Some("r1.5") => {
            let op_list: Value = serde_json::from_str(canonical)?;
            let content = json!({ "SocInfo": { "socVersion": "Ascend910A" }, "op_list": op_list });
            (json!({ "job_content": content }), Generation::R1_5)
        }
        Some("r1.2") => {
            let mut values = serde_json::Deserializer::from_str(canonical).into_iter::<Value>();
            let (mut op_info, mut soc_info) =
                (values.next().ok_or("no op_info")??, values.next().ok_or("no SocInfo")??);
            soc_info["socVersion"] = op_info["socVersion"].clone();
            op_info["Type"] = "Square".into();
            (json!({ "SocInfo": soc_info, "op_info": op_info }), Generation::R1_2)
        }
        Some("r1.1") => (serde_json::from_str(canonical)?, Generation::R1_0),
        Some("AKG") => {
            let whole = canonical.replace(",}", ",\"ptr_address\":\"Default/a\"}");
            (serde_json::from_str(&whole)?, Generation::Akg)
        }
        _ => return Err(format!("unknown kind {kind}").into()),
    })
}

/// The documentation shows a file of r1.2 under the name of r1.1, and the name of r1.2 in it.
fn check_both_names(file: &Path) -> Result<(), Failed> {
    let descriptor = read_info(&std::fs::read(file)?)?;
    for (generation, name) in [
        (Generation::R1_0, "Square_3307185124911971026_7"),
        (Generation::R1_2, "Square_2989580383048251395_7"),
    ] {
        let made = KernelName::mindspore(&descriptor, generation, 7)?;
        if made.as_str() != name || descriptor.named_by(name) != Some(generation) {
            return Err(format!("{generation} names it {made}").into());
        }
    }
    Ok(())
}
