//! `opbuild inspect`.

use std::path::Path;

use anyhow::bail;
use opbuild_artifact::{Expectations, KernelMeta, Magic};
use opbuild_descriptor::{
    Arg, Descriptor, Generation, KernelName, MAX_INFO_BYTES, Tensor, VendorName, read_info,
};
use opbuild_digest::Digest;
use opbuild_store::{Entry, MAX_ENTRY_BYTES};
use opbuild_validator::{CrossCheck, cross_check, read_object, validate};
use serde_json::{Value, json};

use crate::args::InspectArgs;
use crate::input::{read_beside, read_file};
use crate::output::{Output, Verdict, chain, one_line};

/// What was found in a file: lines of (field, value), and what is wrong with it.
struct Found {
    kind: &'static str,
    fields: Vec<(String, String)>,
    problems: Vec<String>,
}

impl Found {
    fn new(kind: &'static str) -> Self {
        Self { kind, fields: Vec::new(), problems: Vec::new() }
    }

    fn field(&mut self, name: impl Into<String>, value: impl ToString) {
        self.fields.push((name.into(), value.to_string()));
    }
}

pub(crate) fn inspect(args: &InspectArgs, output: &Output) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::Good;
    let (mut text, mut json_files) = (String::new(), Vec::new());
    for path in &args.files {
        match look(path) {
            Ok(found) => {
                text.push_str(&found_text(path, &found));
                json_files.push(found_json(path, &found));
                if !found.problems.is_empty() && verdict == Verdict::Good {
                    verdict = Verdict::Problems;
                }
            }
            Err(error) => {
                output.error(&error);
                json_files.push(json!({ "file": path.to_string_lossy(), "error": chain(&error) }));
                verdict = Verdict::Unusable;
            }
        }
    }
    if !text.is_empty() || !output.is_text() {
        output.result(&text, &json!({ "files": json_files }))?;
    }
    Ok(verdict)
}

fn look(path: &Path) -> anyhow::Result<Found> {
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    match extension.as_ref() {
        "info" => {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            Ok(info(&read_file(path, MAX_INFO_BYTES)?, &stem))
        }
        "json" => {
            let object = ["o", "so"]
                .iter()
                .find_map(|suffix| read_beside(&path.with_extension(suffix), MAX_ENTRY_BYTES));
            let object = object.transpose()?;
            Ok(pair(&read_file(path, MAX_INFO_BYTES)?, object.as_deref()))
        }
        "o" | "so" => Ok(object(&read_file(path, MAX_ENTRY_BYTES)?)),
        "kern" => Ok(entry(path, read_file(path, MAX_ENTRY_BYTES)?)),
        _ => bail!(
            "`{}` is none of the files that inspect knows: .info, .json, .o, .so or .kern",
            path.display()
        ),
    }
}

/// A descriptor, from a file that is called `stem`.
fn info(bytes: &[u8], stem: &str) -> Found {
    let mut found = Found::new("operator descriptor");
    match read_info(bytes) {
        Err(error) => found.problems.push(error.to_string()),
        Ok(descriptor) => {
            describe(&mut found, &descriptor);
            names(&mut found, &descriptor, stem);
        }
    }
    found
}

/// The names that frameworks give to the kernel, and whose name the file and the kernel bear.
fn names(found: &mut Found, descriptor: &Descriptor, stem: &str) {
    let borne = descriptor.envelope.fusion_op_name.as_str();
    for (what, name) in [("kernel name is", borne), ("file name is", stem)] {
        if !name.is_empty() {
            found.field(what, whose(descriptor, name));
        }
    }
    for generation in Generation::ALL {
        let name = KernelName::mindspore(descriptor, generation, descriptor.device_id());
        let name = name.map_or_else(|error| format!("none: {error}"), |name| name.to_string());
        found.field(format!("name of {}", generation.versions()), name);
    }
}

/// Who gave the name, as far as can be told.
fn whose(descriptor: &Descriptor, name: &str) -> String {
    match (descriptor.named_by(name), VendorName::parse(name)) {
        (Some(generation), _) => format!("that of {generation}"),
        (None, Some(VendorName::Cann { .. })) => {
            "one of CANN, which hashes more than a descriptor says".to_owned()
        }
        (None, Some(form)) => format!("{form}, but of another descriptor: this one was changed since"),
        (None, None) => "of no known form".to_owned(),
    }
}

fn describe(found: &mut Found, descriptor: &Descriptor) {
    let Descriptor { job, spec, envelope } = descriptor;
    if let Some(generation) = envelope.generation {
        found.field("generation", generation);
    }
    found.field("target", &spec.target);
    for (name, value) in [("node", &envelope.full_name), ("kernel name", &envelope.fusion_op_name)] {
        if !value.is_empty() {
            found.field(name, value);
        }
    }
    found.field("job digest", job.digest());
    for (at, op) in job.ops.iter().enumerate() {
        let place = |what: &str| if job.ops.len() == 1 { what.to_owned() } else { format!("op {at} {what}") };
        found.field(place("op type"), &op.op_type);
        let module =
            if op.module_name.is_empty() { String::new() } else { format!(" in {}", op.module_name) };
        found.field(place("function"), format!("{}{module}", op.func_name));
        for (at, arg) in op.inputs.iter().enumerate() {
            let tensors: Vec<String> = arg.iter().map(|input| tensor(&input.tensor)).collect();
            found.field(place(&format!("input {at}")), argument(arg, &tensors));
        }
        for attr in op.attrs.as_deref().unwrap_or_default() {
            found.field(place(&format!("attribute {}", attr.name)), format!("{:?}", attr.value));
        }
        for (at, arg) in op.outputs.iter().enumerate() {
            let tensors: Vec<String> = arg.iter().map(tensor).collect();
            found.field(place(&format!("output {at}")), argument(arg, &tensors));
        }
    }
    for (name, value) in spec.options.iter().filter(|(name, _)| spec.option(name).is_some()) {
        found.field(format!("option {name}"), value);
    }
    for (name, value) in &job.extra {
        found.field(format!("unknown field {name}"), value);
    }
}

fn tensor(tensor: &Tensor) -> String {
    format!("{} {} {:?}", tensor.dtype, tensor.format, tensor.shape)
}

fn argument<T>(arg: &Arg<T>, tensors: &[String]) -> String {
    match arg {
        Arg::One(_) => tensors.join(""),
        Arg::Many(_) => format!("variadic: {}", tensors.join("; ")),
        Arg::Absent(absent) => format!("absent ({})", absent.param_type),
    }
}

/// A kernel's `.json`, with its object if that is beside it.
fn pair(json: &[u8], beside: Option<&[u8]>) -> Found {
    let mut found = Found::new("kernel description");
    let meta = match KernelMeta::parse(json) {
        Ok(meta) => meta,
        Err(error) => {
            found.problems.push(error.to_string());
            return found;
        }
    };
    describe_meta(&mut found, &meta);
    match beside {
        None => found.field("object", "none beside it; the pair cannot be checked"),
        Some(object) => {
            describe_object(&mut found, object);
            // Which chip it is for is not written anywhere, so any machine and magic will do.
            let machines = read_object(object).map(|facts| vec![facts.machine.0]).unwrap_or_default();
            let any = Expectations { target: "any".to_owned(), machines, magics: Magic::ALL.to_vec() };
            match validate(json, object, &any) {
                Ok(_) => found.field("valid", "yes: the pair fits together"),
                Err(refusal) => found.problems.push(refusal.to_string()),
            }
        }
    }
    found
}

fn describe_meta(found: &mut Found, meta: &KernelMeta) {
    let text: Value = serde_json::from_str(&meta.to_json()).unwrap_or_default();
    if let Value::Object(fields) = text {
        for (name, value) in fields {
            let value = match value {
                Value::String(text) => text,
                other => other.to_string(),
            };
            let short: String = value.chars().take(200).collect();
            found.field(name, if short.len() < value.len() { format!("{short}...") } else { short });
        }
    }
    if let Some(magic) = meta.magic {
        found.field("magic number", format!("{:#010x}", magic.value()));
    }
}

fn object(bytes: &[u8]) -> Found {
    let mut found = Found::new("kernel object");
    describe_object(&mut found, bytes);
    found
}

fn describe_object(found: &mut Found, bytes: &[u8]) {
    found.field("object bytes", bytes.len());
    found.field("object sha256", Digest::of(bytes));
    match read_object(bytes) {
        Err(refusal) => {
            found.problems.push(refusal.to_string());
            return;
        }
        Ok(facts) => {
            found.field("machine", facts.machine);
            found.field("elf type", facts.elf_type);
            found.field("e_flags", format!("{:#x}", facts.flags));
            found.field("sections", facts.sections);
            let shown: Vec<&str> = facts.kernels.iter().take(20).map(String::as_str).collect();
            let more = facts.kernels.len() - shown.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            found.field("kernels", format!("{}{more}", shown.join(", ")));
        }
    }
    let check = cross_check(bytes);
    match &check {
        CrossCheck::Agree { .. } => found.field("second parser", &check),
        _ => found.problems.push(check.to_string()),
    }
}

/// A store entry, checked against the key that its name says.
fn entry(path: &Path, bytes: Vec<u8>) -> Found {
    let mut found = Found::new("store entry");
    found.field("entry bytes", bytes.len());
    let key = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<Digest>().ok());
    let entry = match Entry::decode(bytes, key.as_ref()) {
        Ok(entry) => entry,
        Err(damage) => {
            found.problems.push(damage.to_string());
            return found;
        }
    };
    found.field("key", entry.key());
    found.field("validated by rules", entry.validation());
    for name in entry.names() {
        let digest = entry.member_digest(name).map(Digest::to_string).unwrap_or_default();
        found.field(format!("member {name}"), format!("sha256 {digest}"));
    }
    match entry.lazy_member("header").map(|header| header.and_then(|text| serde_json::from_slice(text).ok()))
    {
        Err(damage) => found.problems.push(damage.to_string()),
        Ok(header) => describe_header(&mut found, header.unwrap_or(Value::Null)),
    }
    match entry.lazy_member("info") {
        Err(damage) => found.problems.push(damage.to_string()),
        Ok(Some(text)) => {
            if let Ok(descriptor) = read_info(text) {
                describe(&mut found, &descriptor);
            }
        }
        Ok(None) => {}
    }
    if let (Some(json), Some(object)) = (entry.member("json"), entry.member("object")) {
        let inner = pair(json, Some(object));
        found.fields.extend(inner.fields);
        found.problems.extend(inner.problems);
    }
    found
}

fn describe_header(found: &mut Found, header: Value) {
    for name in ["name", "target", "backend", "compile_us", "made_by", "provenance"] {
        if let Some(value) = header.get(name).filter(|value| !value.is_null()) {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            found.field(format!("entry {name}"), value);
        }
    }
    for part in ["toolchain", "op_sources"] {
        let parts = header.get("parts").and_then(|parts| parts.get(part)?.get("parts")?.as_array());
        for item in parts.into_iter().flatten() {
            let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
            let note: String = text("note").chars().take(120).collect();
            found.field(format!("{part}: {}", text("name")), note);
        }
    }
}

fn found_text(path: &Path, found: &Found) -> String {
    let width = found.fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0).min(28);
    let mut text = format!("{}: {}\n", path.display(), found.kind);
    for (name, value) in &found.fields {
        text.push_str(&format!("  {:width$}  {}\n", one_line(name), one_line(value)));
    }
    for problem in &found.problems {
        text.push_str(&format!("  problem: {}\n", one_line(problem)));
    }
    text
}

fn found_json(path: &Path, found: &Found) -> Value {
    let fields: serde_json::Map<String, Value> =
        found.fields.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    json!({
        "file": path.to_string_lossy(),
        "kind": found.kind,
        "valid": found.problems.is_empty(),
        "fields": fields,
        "problems": found.problems,
    })
}
