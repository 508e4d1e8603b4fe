//! Writing the tree.

use std::io;
use std::path::{Path, PathBuf};

use super::ops::{OPS, Source};
use super::paths::{ARCH, op_info as op_info_path, platform_config};
use super::plan::{Layout, Part, Toolkit};
use super::platform::Soc;
use super::{disk, module, op_info, python};

/// The packages that have a `version.info`.
pub(super) const PACKAGES: [&str; 6] = ["compiler", "runtime", "toolkit", "opp", "opp_kernel", "hccl"];

/// The directory of the operators' Python, below the root.
pub(super) const TBE: &str = "opp/built-in/op_impl/ai_core/tbe";

/// The root and the link to it, below the directory that things are installed to.
pub(super) fn places(plan: &Toolkit) -> [PathBuf; 2] {
    match plan.layout {
        Layout::AscendToolkit => {
            [PathBuf::from("ascend-toolkit").join(&plan.version), PathBuf::from("ascend-toolkit/latest")]
        }
        Layout::Cann => [PathBuf::from(format!("cann-{}", plan.version)), PathBuf::from("cann")],
    }
}

/// Writes everything of `plan` below `root`, and the link to it.
pub(super) fn write(plan: &Toolkit, root: &Path, link: &Path) -> io::Result<()> {
    let host = root.join(format!("{ARCH}-linux"));
    write_links(root)?;
    let target = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    disk::link(&target, link)?;
    disk::write(&root.join("set_env.sh"), set_env(link))?;
    write_versions(plan, root)?;
    if plan.has(Part::Compiler) {
        write_compiler(&host, &plan.stamp())?;
    }
    if plan.has(Part::Opc) {
        write_tool(&host, "opc", "opc_tool/opc.py")?;
        if plan.has_asc_opc() {
            write_tool(&host, "asc_opc", "asc_opc_tool/asc_opc.py")?;
        }
    }
    write_libraries(plan, &host)?;
    if plan.has(Part::PlatformConfig) {
        for soc in &plan.socs {
            disk::write(&platform_config(root, soc.name), soc.ini())?;
        }
    }
    if plan.has(Part::Python) {
        let site = root.join("python/site-packages");
        python::write(&site, &plan.missing_modules, &plan.protobuf, plan.has_asc_opc())?;
        if plan.old_python {
            // Such a name was taken out of Python 3.10.
            let text = "from collections import Mapping\n";
            let own = disk::read(&site.join("tbe/__init__.py"))?;
            disk::write(
                &site.join("tbe/__init__.py"),
                own.replacen("import attr\n", &format!("{text}import attr\n"), 1),
            )?;
        }
    }
    if plan.has(Part::Opp) {
        write_opp(plan, root)?;
    }
    Ok(())
}

pub(super) fn write_links(root: &Path) -> io::Result<()> {
    let host = format!("{ARCH}-linux");
    for (path, target) in [
        ("bin", format!("{host}/bin")),
        ("lib64", format!("{host}/lib64")),
        ("compiler/bin", format!("../{host}/bin")),
        ("compiler/lib64", format!("../{host}/lib64")),
        ("compiler/ccec_compiler", format!("../{host}/ccec_compiler")),
        ("tools/ccec_compiler", format!("../{host}/ccec_compiler")),
        ("compiler/data", format!("../{host}/data")),
    ] {
        disk::link(&target, &root.join(path))?;
    }
    Ok(())
}

/// Files that say which version this is.
pub(super) fn write_versions(plan: &Toolkit, root: &Path) -> io::Result<()> {
    let Toolkit { version, inner_version: inner, timestamp, .. } = plan;
    let series = inner.split('.').take(2).collect::<Vec<_>>().join(".");
    let mut all = "# version: 1.0\n".to_owned();
    for package in PACKAGES {
        for state in ["running", "upgrade", "installed"] {
            all += &format!("{package}_{state}_version=[{inner}:{version}]\n");
        }
        let folder = root.join(package);
        let is_there = match package {
            "compiler" => plan.has(Part::CompilerVersion),
            "opp" => plan.has(Part::OppVersion) && plan.has(Part::Opp),
            _ => true,
        };
        if is_there {
            let text = format!(
                "Version={inner}\nversion_dir={version}\ntimestamp={timestamp}\nrequired_package_runtime_version=\"{series}\"\n"
            );
            disk::write(&folder.join("version.info"), text)?;
            let scene = format!("os=linux\nos_version=\narch={ARCH}");
            disk::write(&folder.join("scene.info"), scene)?;
        }
    }
    disk::write(&root.join("version.cfg"), all)?;
    let install = format!(
        "package_name=Ascend-cann-toolkit\nversion={version}\ninnerversion=V100R001C21SPC001B238\n\
         compatible_version=[V100R001C19],[V100R001C20],[V100R001C21]\narch={ARCH}\nos=linux\npath={}\n",
        root.display()
    );
    disk::write(&root.join(format!("{ARCH}-linux/ascend_toolkit_install.info")), install)
}

/// The compiler and the linker, with the stamp of their version.
pub(super) fn write_compiler(host: &Path, stamp: &str) -> io::Result<()> {
    let bin = host.join("ccec_compiler/bin");
    disk::write_program(&bin.join("ccec"), &python::CCEC.replace("@STAMP@", stamp))?;
    disk::write_program(&bin.join("ld.lld"), &python::LLD.replace("@STAMP@", stamp))?;
    disk::link("ccec", &bin.join("bisheng"))
}

fn write_tool(host: &Path, name: &str, script: &str) -> io::Result<()> {
    disk::write_program(&host.join("bin").join(name), &python::OPC.replace("@TOOL@", script))
}

fn write_libraries(plan: &Toolkit, host: &Path) -> io::Result<()> {
    let log = plan.has(Part::LogLibrary).then_some("libascendalog.so");
    for name in ["libte_fusion.so", "libacl_op_compiler.so", "libregister.so"].into_iter().chain(log) {
        disk::write(&host.join("lib64").join(name), format!("stands for {name}\n"))?;
    }
    Ok(())
}

fn write_opp(plan: &Toolkit, root: &Path) -> io::Result<()> {
    let tbe = root.join(TBE);
    for (name, text) in python::HELPERS.into_iter().chain([python::LATE_HELPER]) {
        disk::write(&tbe.join("impl").join(name), text)?;
    }
    let mut dynamic = "\"\"\"All operators for shapes that are not known.\"\"\"\n".to_owned();
    for op in OPS.iter().filter(|op| op.source != Source::Null) {
        let function = op.function();
        disk::write(&tbe.join(format!("impl/{function}.py")), module::text(op, false))?;
        disk::write(&tbe.join(format!("impl/dynamic/{function}.py")), module::text(op, true))?;
        dynamic += &format!("from .{function} import {function}\n");
        if matches!(op.source, Source::AscendC | Source::Mix(..)) {
            write_ascend_c(&tbe, &function)?;
        }
    }
    disk::write(&tbe.join("impl/dynamic/__init__.py"), dynamic)?;
    for at in 0..plan.more_ops {
        let text = format!(
            "\"\"\"Operator {at}.\"\"\"\nfrom impl.util.platform_adapter import tbe\n\nNUMBER = {at}\n"
        );
        disk::write(&tbe.join(format!("impl/dynamic/more_{at}.py")), text)?;
    }
    for soc in &plan.socs {
        let short = soc.short.to_lowercase();
        if plan.has(Part::OpInfo) {
            let path = op_info_path(&tbe, &short);
            disk::write(&path, op_info::file(OPS, soc))?;
        }
        disk::folder(&root.join(format!("opp/built-in/data/op/{}/unified_bank", soc.name)))?;
        disk::folder(&tbe.join(format!("kernel/{short}")))?;
        disk::folder(&tbe.join(format!("kernel/config/{short}")))?;
    }
    for mode in ["high_performance", "high_precision"] {
        let text = format!("SoftmaxV2={mode}\nReduceSum={mode}\n");
        disk::write(&tbe.join(format!("impl_mode/{mode}.ini")), text)?;
    }
    let vendors = root.join("opp/vendors");
    for vendor in &plan.vendors {
        vendor.write(&vendors.join(vendor.name()), &plan.socs)?;
    }
    let names: Vec<&str> = plan.vendors.iter().map(super::Vendor::name).collect();
    if !names.is_empty() {
        disk::write(&vendors.join("config.ini"), format!("load_priority={}\n", names.join(",")))?;
    }
    disk::folder(&root.join("opp/built-in/op_proto"))
}

fn write_ascend_c(tbe: &Path, function: &str) -> io::Result<()> {
    let folder = tbe.join("impl/ascendc").join(function);
    let kernel = format!(
        "#include \"{function}.h\"\n\nextern \"C\" __global__ __aicore__ void {function}(GM_ADDR x) {{}}\n"
    );
    disk::write(&folder.join(format!("{function}.cpp")), kernel)?;
    disk::write(&folder.join(format!("{function}.h")), "#include \"kernel_operator.h\"\n")
}

/// Which variables lead to the root `link`: name, and values that go before what is there, or in its place.
pub(super) fn variables(link: &Path) -> Vec<(&'static str, Vec<PathBuf>)> {
    let at = |path: &str| if path.is_empty() { link.to_owned() } else { link.join(path) };
    let tiling = format!("{TBE}/op_tiling/lib/linux/{ARCH}");
    vec![
        ("ASCEND_TOOLKIT_HOME", vec![at("")]),
        ("ASCEND_HOME_PATH", vec![at("")]),
        ("ASCEND_AICPU_PATH", vec![at("")]),
        ("ASCEND_OPP_PATH", vec![at("opp")]),
        ("TOOLCHAIN_HOME", vec![at("toolkit")]),
        (
            "LD_LIBRARY_PATH",
            [
                "lib64",
                "lib64/plugin/opskernel",
                "lib64/plugin/nnengine",
                &tiling,
                "tools/aml/lib64",
                "tools/aml/lib64/plugin",
            ]
            .map(at)
            .to_vec(),
        ),
        ("PYTHONPATH", vec![at("python/site-packages"), at(TBE)]),
        ("PATH", ["bin", "compiler/ccec_compiler/bin", "tools/ccec_compiler/bin"].map(at).to_vec()),
    ]
}

/// Those that are lists, which keep what was there.
pub(super) const LISTS: [&str; 3] = ["LD_LIBRARY_PATH", "PYTHONPATH", "PATH"];

pub(super) fn set_env(link: &Path) -> String {
    let lines = variables(link).into_iter().map(|(name, values)| {
        let values: Vec<String> = values.iter().map(|path| path.display().to_string()).collect();
        let rest = if LISTS.contains(&name) { format!(":${{{name}}}") } else { String::new() };
        format!("export {name}={}{rest}\n", values.join(":"))
    });
    lines.collect()
}

/// The chip called so.
pub(super) fn soc(name: &str) -> io::Result<&'static Soc> {
    Soc::find(name)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("there is no chip `{name}`")))
}
