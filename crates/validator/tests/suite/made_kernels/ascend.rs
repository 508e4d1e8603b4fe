//! Kernels as Ascend's compilers make them, written byte by byte, so that each byte can be written wrong.

use opkeep_cann_meta::targets;
use opkeep_digest::Digest;

pub(crate) const PROGBITS: u32 = 1;
pub(crate) const RELA: u32 = 4;
pub(crate) const NOTE: u32 = 7;
pub(crate) const NOBITS: u32 = 8;
pub(crate) const ALLOC: u64 = 2;
pub(crate) const CODE: u64 = 6;
pub(crate) const GLOBAL_FUNC: u8 = 0x12;
const SYMTAB: u32 = 2;
const STRTAB: u32 = 3;

/// A section.
#[derive(Clone)]
pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) kind: u32,
    pub(crate) flags: u64,
    pub(crate) address: u64,
    pub(crate) link: u32,
    pub(crate) info: u32,
    pub(crate) bytes: Vec<u8>,
}

impl Section {
    pub(crate) fn new(name: &str, kind: u32, flags: u64, bytes: &[u8]) -> Self {
        let (address, link, info) = (0, 0, 0);
        Self { name: name.to_owned(), kind, flags, address, link, info, bytes: bytes.to_vec() }
    }
}

/// A symbol.
#[derive(Clone)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    pub(crate) info: u8,
    pub(crate) other: u8,
    pub(crate) section: u16,
    pub(crate) value: u64,
    pub(crate) size: u64,
}

/// An object and its `.json`.
#[derive(Clone)]
pub(crate) struct Kernel {
    pub(crate) e_type: u16,
    pub(crate) flags: u32,
    pub(crate) sections: Vec<Section>,
    pub(crate) symbols: Vec<Symbol>,
    pub(crate) json: serde_json::Value,
}

/// An item of a metadata section.
pub(crate) fn tlv(kind: u16, value: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &(value.len() as u16).to_le_bytes(), value].concat()
}

impl Kernel {
    /// Vector kernels of 910B, called `add_0`, `add_1`, ...: `.text` at 0, `.data` a page behind it, metadata.
    pub(crate) fn vector(kernels: usize) -> Self {
        let names: Vec<String> = (0..kernels).map(|at| format!("add_{at}")).collect();
        let json = serde_json::json!({
            "binFileName": "add", "binFileSuffix": ".o", "blockDim": -1, "coreType": "VectorCore", "core_type": "AIV",
            "kernelName": "add", "magic": "RT_DEV_BINARY_MAGIC_ELF_AIVEC",
            "workspace": {"num": 1, "size": [-1], "type": [0]},
            "kernelList": names.iter().map(|name| serde_json::json!({"kernelName": name})).collect::<Vec<_>>(),
        });
        let mut made = Self::of(&names, &tlv(1, &[3, 0, 0, 0]), json);
        made.flags = 0x93_0000;
        made
    }

    /// A kernel of both kinds of core, one cube to two vector.
    pub(crate) fn mixed() -> Self {
        let entry = serde_json::json!({
            "kernelName": "add_3", "tilingKey": 3, "kernelType": "MIX_AIC", "taskRation": "1:2", "crossCoreSync": 1,
            "deterministic": "true",
        });
        let json = serde_json::json!({
            "binFileName": "add", "binFileSuffix": ".o", "blockDim": -1, "coreType": "MIX", "kernelName": "add", "magic": "RT_DEV_BINARY_MAGIC_ELF",
            "workspace": {"num": 1, "size": [-1], "type": [0]},
            "taskRation": "tilingKey", "kernelList": [entry],
        });
        let mut key = vec![0x80, 0, 0, 0];
        key.extend(3_u64.to_le_bytes());
        let meta = [
            tlv(1, &[4, 0, 0, 0]),
            tlv(2, &[1, 0, 0, 0]),
            tlv(3, &[1, 0, 2, 0]),
            tlv(13, &[1, 0, 0, 0]),
            tlv(14, &key),
        ];
        let names = ["add_3_mix_aic".to_owned(), "add_3_mix_aiv".to_owned()];
        let mut made = Self::of(&names, &meta.concat(), json);
        made.flags = 0x94_0000;
        made
    }

    /// A kernel of the first generation: relocatable, and loaded as it is.
    pub(crate) fn first_generation() -> Self {
        let json = serde_json::json!({
            "binFileName": "add", "binFileSuffix": ".o", "blockDim": 1, "kernelName": "add__kernel0", "magic": "RT_DEV_BINARY_MAGIC_ELF",
        });
        let mut made = Self::of(&["add__kernel0".to_owned()], &[], json);
        made.e_type = 1;
        made.sections.retain(|section| section.name == ".text" || section.name == ".comment");
        made
    }

    pub(crate) fn is_first_generation(&self) -> bool {
        self.flags == 0 && self.e_type == 1
    }

    fn of(names: &[String], meta: &[u8], json: serde_json::Value) -> Self {
        let mut data = Section::new(".data", PROGBITS, 3, &[1; 8]);
        data.address = 0x1000;
        let mut sections = vec![
            Section::new(".text", PROGBITS, CODE, &vec![0x55; 16 * names.len()]),
            data,
            Section::new(".ascend.stack.size.record", NOTE, 0, &0x8000_u64.to_le_bytes().repeat(names.len())),
            Section::new("__CCE_KernelArgSize", NOTE, 0, &0x20_u32.to_le_bytes().repeat(names.len())),
            Section::new(".comment", PROGBITS, 0x30, b"Linker: LLD 15.0.5\0\0clang version 15.0.5\0"),
            Section::new(".bl_uninit", NOBITS, 0, &[]),
        ];
        for name in names {
            sections.push(Section::new(&format!(".ascend.meta.{name}"), NOTE, 0, meta));
        }
        let function = |(at, name): (usize, &String)| Symbol {
            name: name.clone(),
            info: GLOBAL_FUNC,
            other: 0,
            section: 1,
            value: 16 * at as u64,
            size: 16,
        };
        let mut symbols: Vec<Symbol> = names.iter().enumerate().map(function).collect();
        // Larger than its section, as in genuine kernels.
        let config = Symbol {
            name: "g_opSystemRunCfg".to_owned(),
            info: 0x11,
            other: 0,
            section: 2,
            value: 0x1000,
            size: 256,
        };
        symbols.push(config);
        Self { e_type: 2, flags: 0, sections, symbols, json }
    }

    pub(crate) fn section(&mut self, name: &str) -> &mut Section {
        self.sections.iter_mut().find(|section| section.name == name).unwrap()
    }

    /// The object: header, contents, symbols, strings, section headers.
    pub(crate) fn object(&self) -> Vec<u8> {
        let mut names = vec![0];
        let mut name = |text: &str| {
            names.extend(text.bytes().chain([0]));
            (names.len() - text.len() - 1) as u32
        };
        let mut symbols = vec![0; 24];
        for symbol in &self.symbols {
            symbols.extend(name(&symbol.name).to_le_bytes());
            symbols.extend([symbol.info, symbol.other]);
            symbols.extend(symbol.section.to_le_bytes());
            symbols.extend([symbol.value, symbol.size].iter().flat_map(|number| number.to_le_bytes()));
        }
        let mut sections = vec![Section::new("", 0, 0, &[])];
        sections.extend(self.sections.iter().cloned());
        let strings = sections.len() as u32 + 1;
        let symtab = Section { link: strings, info: 1, ..Section::new(".symtab", SYMTAB, 0, &symbols) };
        sections.extend([symtab, Section::new(".strtab", STRTAB, 0, &[])]);
        let mut headers: Vec<[u64; 10]> = Vec::new();
        let mut object = vec![0; 64];
        for section in &sections {
            // As linkers do: what is loaded stands as far from `.text` as its address says.
            let offset = match section.flags & ALLOC != 0 && self.e_type != 1 {
                true => 64 + section.address as usize,
                false => object.len().next_multiple_of(8),
            };
            let kind_and_name = [name(&section.name), section.kind];
            if section.kind != NOBITS && section.kind != STRTAB {
                object.resize(object.len().max(offset), 0);
                object.splice(offset.., section.bytes.iter().copied());
            }
            let (size, offset) = match section.kind {
                NOBITS => (8, offset),
                0 => (0, 0),
                _ => (section.bytes.len(), offset),
            };
            let size_of_entry = match section.kind {
                SYMTAB | RELA => 24,
                _ => 0,
            };
            headers.push([
                kind_and_name[0].into(),
                kind_and_name[1].into(),
                section.flags,
                section.address,
                offset as u64,
                size as u64,
                section.link.into(),
                section.info.into(),
                8,
                size_of_entry,
            ]);
        }
        // The strings come last, when all are known.
        let at = object.len() as u64;
        let strtab = headers.last_mut().unwrap();
        (strtab[4], strtab[5]) = (at, names.len() as u64);
        object.extend(&names);
        object.resize(object.len().next_multiple_of(8), 0);
        self.write_header(&mut object, headers.len() as u16);
        for header in headers {
            for (field, number) in header.iter().enumerate() {
                match field {
                    0 | 1 | 6 | 7 => object.extend((*number as u32).to_le_bytes()),
                    _ => object.extend(number.to_le_bytes()),
                }
            }
        }
        object
    }

    fn write_header(&self, object: &mut [u8], sections: u16) {
        let headers = object.len() as u64;
        object[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        object[16..18].copy_from_slice(&self.e_type.to_le_bytes());
        object[18..20].copy_from_slice(&targets::ASCEND.to_le_bytes());
        object[20] = 1;
        object[40..48].copy_from_slice(&headers.to_le_bytes());
        object[48..52].copy_from_slice(&self.flags.to_le_bytes());
        object[52] = 64;
        object[58] = 64;
        object[60..62].copy_from_slice(&sections.to_le_bytes());
        object[62..64].copy_from_slice(&(sections - 1).to_le_bytes());
    }

    /// The `.json`, with the digest of the object.
    pub(crate) fn json(&self) -> String {
        self.json_of(&self.object())
    }

    /// The `.json`, with the digest of another object.
    pub(crate) fn json_of(&self, object: &[u8]) -> String {
        let mut json = self.json.clone();
        json["sha256"] = Digest::of(object).to_string().into();
        json.to_string()
    }
}
