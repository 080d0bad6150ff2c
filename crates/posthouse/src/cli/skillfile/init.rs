//! `posthouse skillfile init`: a home folder with examples. What exists already stays as it is.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, anyhow};
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use skill::Status;
use workshop::SkillStore;

use super::approval::sign;
use crate::cli::output::Output;
use crate::cli::skill::key_files::read_signing_key;
use crate::cli::skill_home::SkillHome;
use crate::key_files::{SystemDisk, create_folder_durably, write_durably};

/// Files of a new home, by their path in it.
const FILES: &[(&str, &str)] = &[
    ("config.toml", include_str!("scaffold/config.toml")),
    ("connectors.json", include_str!("scaffold/connectors.json")),
    (".env.example", include_str!("scaffold/env.example")),
];
/// Skills of a new home. They are approved here, because the operator creates them with this command.
const SKILLS: &[(&str, &str)] = &[
    ("hello-world", include_str!("scaffold/hello-world.skill.md")),
    ("skill-store-roundtrip", include_str!("scaffold/skill-store-roundtrip.skill.md")),
    ("data-store-roundtrip", include_str!("scaffold/data-store-roundtrip.skill.md")),
];
/// Base64 characters in one line of a PEM file.
const PEM_LINE: usize = 64;

pub async fn init(output: &Output, home: &SkillHome) -> anyhow::Result<()> {
    let folder = home.folder();
    for name in ["skills", "examples", "plugins"] {
        let path = folder.join(name);
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
    }
    for (name, text) in FILES {
        write_new(&folder.join(name), text)?;
    }
    let mut new = Vec::new();
    for (name, text) in SKILLS {
        let file = home.skills().join(format!("{name}.skill.md"));
        // An example that is as this command writes it was not approved: an earlier call failed.
        if write_new(&file, text)? || fs::read_to_string(&file).is_ok_and(|found| found == *text) {
            new.push((*name, *text));
        }
    }
    let how = if new.is_empty() { "as they were" } else { approve(home, &new).await? };
    let shown = folder.display();
    output.text(&format!(
        "Initialized {shown}\n\
         \x20 skills/          hello-world, skill-store-roundtrip, data-store-roundtrip ({how})\n\
         \x20 connectors.json  tool connectors of skills\n\
         \x20 .env.example     settings; copy it to .env\n\n\
         Next:\n\
         \x20 posthouse skillfile execute hello-world\n\
         \x20 posthouse up     serves tools such as execute_skill, instead of `skillfile dashboard`\n"
    ))
}

/// Approves the new skills: by a signature in secured mode, otherwise by their status.
async fn approve(home: &SkillHome, skills: &[(&str, &str)]) -> anyhow::Result<&'static str> {
    if !home.is_secured() {
        let store = home.store()?;
        for (name, _) in skills {
            store
                .update_status(name, Status::Approved, None)
                .await?
                .map_err(|refusal| anyhow!("{refusal}"))?;
        }
        return Ok("Approved");
    }
    let (private, public) = (home.private_key_file()?, home.public_key_file()?);
    if !public.exists() && !private.exists() {
        create_keys(&private, &public)?;
    }
    let key = read_signing_key(&private)?;
    for (name, source) in skills {
        sign(home, home.public_key()?, &key, name, source).await?;
    }
    Ok("Approved, signed")
}

/// Writes a file unless there is one. False if there was one.
fn write_new(path: &Path, text: &str) -> anyhow::Result<bool> {
    let written = OpenOptions::new().write(true).create_new(true).open(path);
    match written.and_then(|mut file| file.write_all(text.as_bytes())) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot write {}", path.display())),
    }
}

/// Creates a pair of approval keys. Only the user can read the private one.
fn create_keys(private: &Path, public: &Path) -> anyhow::Result<()> {
    let pair = Ed25519KeyPair::generate().context("cannot create an approval key")?;
    let secret = pair.to_pkcs8v1().context("cannot write the approval key")?;
    let open = pair.public_key().as_der().context("cannot write the public approval key")?;
    for (path, label, der) in
        [(private, "PRIVATE KEY", secret.as_ref()), (public, "PUBLIC KEY", open.as_ref())]
    {
        if let Some(folder) = path.parent() {
            create_folder_durably(folder, &SystemDisk)?;
        }
        write_durably(path, &pem(label, der), &SystemDisk)?;
    }
    Ok(())
}

fn pem(label: &str, der: &[u8]) -> String {
    let base64 = STANDARD.encode(der);
    let lines = base64.as_bytes().chunks(PEM_LINE).map(|line| String::from_utf8_lossy(line) + "\n");
    format!("-----BEGIN {label}-----\n{}-----END {label}-----\n", lines.collect::<String>())
}
