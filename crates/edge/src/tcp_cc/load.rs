//! Loading the congestion controls into the kernel.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use libbpf_rs::{ErrorKind, Link, MapCore, MapHandle, Object, ObjectBuilder, OpenObject};

use crate::bpf::{BTF, LoadError, log_debug, map};
use crate::packed;

/// Bytes that the kernel has for a congestion control's name, with the NUL.
const NAME_SIZE: usize = 16;

/// Names are one list for all namespaces of a machine; another server may have the same.
const ATTEMPTS: u32 = 4;

/// Congestion controls that the kernel offers while this lives.
#[derive(Debug)]
pub(super) struct Loaded {
    /// How the names of this server's controls end.
    pub(super) suffix: String,
    /// Whether there is `hk_bbr`.
    pub(super) bbr: bool,
    /// Settings by socket.
    pub(super) settings: MapHandle,
    /// Settings by prefix.
    pub(super) prefixes: MapHandle,
    /// Dropping them unregisters the controls; sockets that have them keep them.
    _links: Vec<Link>,
    _object: Object,
}

/// Loads and registers the controls, `hk_bbr` only where the kernel has `bbr`.
///
/// # Errors
/// When the kernel lacks something or does not allow it; nothing stays behind then.
pub(super) fn load(bbr: bool) -> Result<Loaded, LoadError> {
    if !Path::new(BTF).exists() {
        return Err(LoadError::NoTypes);
    }
    log_debug();
    let mut attempt = 1;
    loop {
        match try_load(bbr) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && attempt < ATTEMPTS => {
                attempt += 1;
            }
            result => return result.map_err(LoadError::new),
        }
    }
}

fn try_load(bbr: bool) -> libbpf_rs::Result<Loaded> {
    let suffix = format!("_{:06x}", RandomState::new().hash_one(0u8) & 0xff_ffff);
    let object = packed::CONGESTION.unpack()?;
    let mut object = ObjectBuilder::default().open_memory(&object)?;
    prepare(&mut object, &suffix, bbr)?;
    let mut object = object.load()?;
    let links = object
        .maps_mut()
        .filter(|map| map.autocreate() && is_control(&map.name().to_string_lossy()))
        .map(|mut map| map.attach_struct_ops())
        .collect::<Result<_, _>>()?;
    Ok(Loaded {
        suffix,
        bbr,
        settings: map(&object, "settings")?,
        prefixes: map(&object, "prefixes")?,
        _links: links,
        _object: object,
    })
}

/// Gives the controls their names, with which their structures begin.
fn prepare(object: &mut OpenObject, suffix: &str, bbr: bool) -> libbpf_rs::Result<()> {
    for mut map in object.maps_mut() {
        let mut name = map.name().to_string_lossy().into_owned();
        if !is_control(&name) {
            continue;
        }
        if name == "hk_bbr" && !bbr {
            map.set_autocreate(false)?;
            continue;
        }
        name.push_str(suffix);
        debug_assert!(name.len() < NAME_SIZE);
        if let Some(value) = map.initial_value_mut() {
            value[..NAME_SIZE].fill(0);
            value[..name.len()].copy_from_slice(name.as_bytes());
        }
    }
    Ok(())
}

fn is_control(map: &str) -> bool {
    map.starts_with("hk_")
}
