//! CANN in `opkeep targets`: the toolkit's directory, versions and chips, or the missing parts and a hint.

use std::path::PathBuf;

use opkeep_backend_ascend::{AscendBackend, AscendConfig, Soc, Toolkit, ToolkitError, Vendor, Version};
use serde::Serialize;

use crate::ui::json;
use crate::ui::text::{Text, counted};
use crate::ui::wrap::headed;

/// The toolkit that was found, or the reason why it cannot be used.
pub(crate) struct Ascend {
    pub(crate) text: Text,
    pub(crate) output: AscendOutput,
    /// Whether there is no unusable toolkit. A missing toolkit is no problem: few machines have one.
    pub(crate) is_ok: bool,
}

pub(crate) fn ascend(config: &AscendConfig) -> Ascend {
    match config.search.find() {
        Ok(toolkit) => with_toolkit(&toolkit, config),
        Err(error) => without_toolkit(&error),
    }
}

impl Ascend {
    /// Returns the toolkit that was found in one line; or the problem, and what to do.
    pub(crate) fn toolkit(&self) -> Result<String, (String, String)> {
        let AscendOutput { toolkit, problem, way_out, targets, .. } = &self.output;
        match toolkit {
            Some(toolkit) => {
                let release = toolkit.compiler.release.as_deref().unwrap_or(&toolkit.compiler.version);
                let chips = counted(targets.len(), "chip");
                Ok(format!("CANN {release} at `{}` ({}), {chips}", toolkit.root, toolkit.named_by))
            }
            None => Err((problem.clone().unwrap_or_default(), way_out.clone().unwrap_or_default())),
        }
    }

    /// Returns what each missing part needs.
    pub(crate) fn missing(&self) -> impl Iterator<Item = String> {
        let one =
            |missing: &MissingOutput| format!("`{}` ({}): {}", missing.path, missing.part, missing.way_out);
        self.output.missing.iter().map(one)
    }

    pub(crate) fn warnings(&self) -> &[String] {
        &self.output.warnings
    }
}

fn without_toolkit(error: &ToolkitError) -> Ascend {
    let mut text = Text::of("Ascend: kernels for Ascend chips, by CANN");
    let missing = if let ToolkitError::Incomplete { root, named_by, missing } = error {
        let problem = format!("the toolkit `{}` ({named_by}) is not complete", root.display());
        row(&mut text, "problem", &problem);
        missing.iter().for_each(|part| row(&mut text, "missing", &part.to_string()));
        missing.as_slice()
    } else {
        // A machine without CANN has no problem.
        let what = if matches!(error, ToolkitError::NotFound { .. }) { "toolkit" } else { "problem" };
        row(&mut text, what, &error.to_string());
        &[]
    };
    row(&mut text, "to do", &error.help());
    let missing = missing.iter().map(|part| MissingOutput {
        part: part.part,
        path: json::path(&part.path),
        way_out: part.help,
    });
    let output = AscendOutput {
        toolkit: None,
        problem: Some(error.to_string()),
        way_out: Some(error.help()),
        missing: missing.collect(),
        targets: Vec::new(),
        warnings: Vec::new(),
    };
    Ascend { text, output, is_ok: matches!(error, ToolkitError::NotFound { .. }) }
}

/// Returns the mechanism that prevents compiles from reading files that no key covers, or why it is not known. It is
/// the same for all chips.
fn confinement(config: &AscendConfig, socs: &[Soc]) -> Option<Result<String, String>> {
    let soc = socs.first()?;
    let backend = AscendBackend::open(config, &soc.name).map_err(|error| error.to_string());
    Some(backend.and_then(|backend| backend.confinement().map_err(|error| error.to_string())))
}

fn with_toolkit(toolkit: &Toolkit, config: &AscendConfig) -> Ascend {
    let platforms = &toolkit.platforms;
    let mut warnings = toolkit.warnings.clone();
    let mut socs: Vec<Soc> = Vec::new();
    let mut is_ok = true;
    for name in platforms.names() {
        match platforms.soc(name) {
            Ok(soc) => socs.push(soc),
            Err(error) => {
                is_ok = false;
                warnings.push(format!("{error}; {}", error.help()));
            }
        }
    }
    warnings.extend(socs.iter().filter_map(|soc| platforms.warning(soc)));

    let versions = &toolkit.versions;
    let release = versions.compiler.release.as_deref().unwrap_or("of unknown release");
    let mut text = Text::of(format_args!("Ascend: kernels for Ascend chips, by CANN {release}"));
    let real = toolkit.real_root();
    let link = if real == toolkit.root { String::new() } else { format!(", which is `{}`", real.display()) };
    row(&mut text, "toolkit", &format!("`{}` ({}){link}", toolkit.root.display(), toolkit.named_by));
    row(&mut text, "compiler", &versions.compiler.to_string());
    row(&mut text, "opp", &versions.opp.to_string());
    for program in [&toolkit.opc, &toolkit.asc_opc].into_iter().flatten() {
        row(&mut text, "program", &program.display().to_string());
    }
    let confinement = confinement(config, &socs);
    match &confinement {
        Some(Ok(confinement)) => row(&mut text, "reads", confinement),
        Some(Err(problem)) => row(&mut text, "reads", &format!("not known: {problem}")),
        None => {}
    }
    for vendor in &toolkit.vendors {
        let version = vendor.version.as_deref().unwrap_or("no version");
        row(&mut text, "vendor", &format!("{} ({version}, {})", vendor.name, vendor.named_by));
    }
    for soc in &socs {
        row(&mut text, "target", &soc.to_string());
    }
    warnings.iter().for_each(|warning| row(&mut text, "warning", warning));

    let vendor = |vendor: &Vendor| VendorOutput {
        name: vendor.name.clone(),
        folder: json::path(&vendor.dir),
        version: vendor.version.clone(),
        named_by: vendor.named_by,
    };
    let program = |path: &Option<PathBuf>| path.as_deref().map(json::path);
    let toolkit = ToolkitOutput {
        root: json::path(&toolkit.root),
        real_root: json::path(&real),
        named_by: toolkit.named_by.to_string(),
        compiler: (&versions.compiler).into(),
        opp: (&versions.opp).into(),
        opc: program(&toolkit.opc),
        asc_opc: program(&toolkit.asc_opc),
        vendors: toolkit.vendors.iter().map(vendor).collect(),
        reads: confinement.and_then(Result::ok),
    };
    let output = AscendOutput {
        toolkit: Some(toolkit),
        problem: None,
        way_out: None,
        missing: Vec::new(),
        targets: socs.into_iter().map(SocOutput::from).collect(),
        warnings,
    };
    Ascend { text, output, is_ok }
}

/// CANN as JSON.
#[derive(Serialize)]
pub(crate) struct AscendOutput {
    toolkit: Option<ToolkitOutput>,
    problem: Option<String>,
    way_out: Option<String>,
    missing: Vec<MissingOutput>,
    targets: Vec<SocOutput>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct MissingOutput {
    part: &'static str,
    path: String,
    way_out: &'static str,
}

#[derive(Serialize)]
struct ToolkitOutput {
    root: String,
    real_root: String,
    named_by: String,
    compiler: VersionOutput,
    opp: VersionOutput,
    opc: Option<String>,
    asc_opc: Option<String>,
    vendors: Vec<VendorOutput>,
    reads: Option<String>,
}

#[derive(Serialize)]
struct VersionOutput {
    version: String,
    release: Option<String>,
    timestamp: Option<String>,
}

impl From<&Version> for VersionOutput {
    fn from(version: &Version) -> Self {
        let Version { inner, release, timestamp, .. } = version.clone();
        Self { version: inner, release, timestamp }
    }
}

#[derive(Serialize)]
struct VendorOutput {
    name: String,
    folder: String,
    version: Option<String>,
    named_by: &'static str,
}

/// A chip as JSON.
#[derive(Serialize)]
struct SocOutput {
    name: String,
    family: String,
    cube_arch: String,
    vector_arch: String,
    combine: String,
    ai_cores: u32,
    cube_cores: Option<u32>,
    vector_cores: Option<u32>,
}

impl From<Soc> for SocOutput {
    fn from(soc: Soc) -> Self {
        let Soc { name, short, cube_arch, vector_arch, combine, ai_cores, cube_cores, vector_cores, .. } =
            soc;
        Self { name, family: short, cube_arch, vector_arch, combine, ai_cores, cube_cores, vector_cores }
    }
}

fn row(text: &mut Text, what: &str, value: &str) {
    text.append(&headed(&format!("  {what:<9}  "), value));
}
