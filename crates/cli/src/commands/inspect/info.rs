//! `opkeep inspect` for a descriptor.

use opkeep_descriptor::{
    Arg, AttrValue, Descriptor, ForeignName, Generation, KernelName, NameError, Tensor, read_info,
};

use super::inspected_file::InspectedFile;

/// Returns the fields of a descriptor, from a file with the stem `stem`.
pub(crate) fn info(bytes: &[u8], stem: &str) -> InspectedFile {
    let mut file = InspectedFile::new("operator descriptor");
    match read_info(bytes) {
        Err(error) => file.problems.push(error.to_string()),
        Ok(descriptor) => {
            describe(&mut file, &descriptor);
            names(&mut file, &descriptor, stem);
            fields(&mut file, &descriptor);
        }
    }
    file
}

/// Adds the content of a descriptor.
pub(crate) fn describe(file: &mut InspectedFile, descriptor: &Descriptor) {
    let Descriptor { job, spec, envelope } = descriptor;
    if let Some(generation) = envelope.generation {
        file.field("generation", generation);
    }
    file.field("target", &spec.target);
    for (name, value) in [("node", &envelope.full_name), ("kernel name", &envelope.fusion_op_name)] {
        if !value.is_empty() {
            file.field(name, value);
        }
    }
    file.field("job digest", job.digest());
    for (at, op) in job.ops.iter().enumerate() {
        let place = |what: &str| if job.ops.len() == 1 { what.to_owned() } else { format!("op {at} {what}") };
        file.field(place("op type"), &op.op_type);
        let module =
            if op.module_name.is_empty() { String::new() } else { format!(" in {}", op.module_name) };
        file.field(place("function"), format!("{}{module}", op.func_name));
        for (at, arg) in op.inputs.iter().enumerate() {
            let tensors: Vec<String> = arg.iter().map(|input| tensor(&input.tensor)).collect();
            file.field(place(&format!("input {at}")), argument(arg, &tensors));
        }
        for attr in op.attrs.as_deref().unwrap_or_default() {
            let given = if attr.valid == Some(false) { " (not given)" } else { "" };
            file.field(place(&format!("attribute {}", attr.name)), format!("{}{given}", shown(&attr.value)));
        }
        for (at, arg) in op.outputs.iter().enumerate() {
            let tensors: Vec<String> = arg.iter().map(tensor).collect();
            file.field(place(&format!("output {at}")), argument(arg, &tensors));
        }
    }
    for (name, value) in spec.options.iter().filter(|(name, _)| spec.option(name).is_some()) {
        file.field(format!("option {name}"), value);
    }
}

fn tensor(tensor: &Tensor) -> String {
    format!("{} {} {:?}", tensor.dtype, tensor.format, tensor.shape)
}

fn argument<T>(arg: &Arg<T>, tensors: &[String]) -> String {
    match arg {
        Arg::One(_) => tensors.join(""),
        Arg::Many(_) => format!("variadic: {}", tensors.join("; ")),
        Arg::Absent(absent) => match absent.param_type.as_deref().filter(|text| !text.is_empty()) {
            Some(param_type) => format!("absent ({param_type})"),
            None => "absent".to_owned(),
        },
    }
}

/// Returns a value as text. A single text has no quotes, which are needed only in lists.
fn shown(value: &AttrValue) -> String {
    match value {
        AttrValue::Str(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Adds the names that frameworks give the kernel, and the origin of the names of the file and the kernel.
fn names(file: &mut InspectedFile, descriptor: &Descriptor, stem: &str) {
    let kernel_name = descriptor.envelope.fusion_op_name.as_str();
    for (what, name) in [("kernel name is", kernel_name), ("file name is", stem)] {
        if !name.is_empty() {
            file.field(what, origin_of(descriptor, name));
        }
    }
    for generation in Generation::ALL {
        let name = match KernelName::mindspore(descriptor, generation, descriptor.device_id()) {
            Ok(name) => name.to_string(),
            // Not reported: AKG and MindSpore never name each other's jobs.
            Err(NameError::OtherCompiler { .. }) => continue,
            Err(error) => format!("none: {error}"),
        };
        file.field(format!("name of {}", generation.versions()), name);
    }
}

/// Returns the program that gave the name, if it is known.
fn origin_of(descriptor: &Descriptor, name: &str) -> String {
    match (descriptor.named_by(name), ForeignName::parse(name)) {
        (Some(generation), _) => format!("that of {generation}"),
        (None, Some(ForeignName::Cann { .. })) => {
            "one of CANN, which hashes more than a descriptor states".to_owned()
        }
        (None, Some(form)) => format!("{form}, but it does not follow from the fields"),
        (None, None) => "of no known form".to_owned(),
    }
}

/// Adds every field that is part of the key, with defaults filled in.
fn fields(file: &mut InspectedFile, descriptor: &Descriptor) {
    for (path, value) in descriptor.job.fields() {
        // The job marks repetitions and references to fields that are listed elsewhere.
        if !path.contains("(shared names)") && !value.contains("\"(tensor)\"") {
            file.field(path, value);
        }
    }
}
