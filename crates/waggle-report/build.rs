//! Bundles the page (TypeScript and CSS under `web/`) into `OUT_DIR/web/dist`.
//!
//! The sources are copied into `OUT_DIR` and built there, so that the source tree stays untouched
//! and builds with different target directories do not meet. Packages are installed by `npm ci`
//! only when the lock file changed since the last time; cargo runs this script only when a file
//! named below changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// Files of `web/` that the bundle is made of.
const MANIFESTS: [&str; 3] = ["package.json", "package-lock.json", ".npmrc"];
const NODE_MAJOR_MIN: u32 = 18;

fn main() {
    if let Err(problem) = build() {
        eprintln!("cannot build the web page of waggle-report: {problem}");
        exit(1);
    }
}

fn build() -> Result<(), String> {
    let web = PathBuf::from(variable("CARGO_MANIFEST_DIR")?).join("../../web");
    let stage = PathBuf::from(variable("OUT_DIR")?).join("web");
    for name in MANIFESTS.iter().chain(&["src"]) {
        println!("cargo::rerun-if-changed={}", web.join(name).display());
    }
    println!("cargo::rerun-if-changed=build.rs");

    node_is_new_enough()?;
    let _ = fs::remove_dir_all(stage.join("src"));
    copy(&web.join("src"), &stage.join("src"))?;
    for name in MANIFESTS {
        copy(&web.join(name), &stage.join(name))?;
    }
    install_packages(&stage)?;
    npm(
        &stage,
        &["run", "--silent", "build"],
        "fix the error above in web/src",
    )
}

fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|_| format!("{name} is not set; build it with cargo"))
}

fn node_is_new_enough() -> Result<(), String> {
    let remedy = format!(
        "install Node.js {NODE_MAJOR_MIN} or newer and npm (on Debian: apt-get install nodejs npm)"
    );
    let output = Command::new("node")
        .arg("--version")
        .output()
        .map_err(|error| format!("node cannot be run: {error}; {remedy}"))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let major: Option<u32> = version
        .trim_start_matches('v')
        .split('.')
        .next()
        .and_then(|n| n.parse().ok());
    match major {
        Some(major) if major >= NODE_MAJOR_MIN => Ok(()),
        _ => Err(format!("node is version '{version}', too old; {remedy}")),
    }
}

/// `npm ci`, unless the packages of this very lock file are installed already.
fn install_packages(stage: &Path) -> Result<(), String> {
    let lock = read(&stage.join("package-lock.json"))?;
    let stamp = stage.join("installed.lock");
    if stage.join("node_modules").is_dir() && fs::read(&stamp).is_ok_and(|old| old == lock) {
        return Ok(());
    }
    let _ = fs::remove_file(&stamp);
    let ci = [
        "ci",
        "--omit=dev",
        "--prefer-offline",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
    ];
    npm(
        stage,
        &ci,
        "the first build fetches esbuild and uplot: check that npm reaches its registry",
    )?;
    fs::write(&stamp, lock).map_err(|error| format!("writing {}: {error}", stamp.display()))
}

fn npm(stage: &Path, arguments: &[&str], remedy: &str) -> Result<(), String> {
    let what = format!("npm {}", arguments.join(" "));
    let output = Command::new("npm")
        .args(arguments)
        .current_dir(stage)
        .output()
        .map_err(|error| {
            format!("npm cannot be run: {error}; install it (on Debian: apt-get install npm)")
        })?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    Err(format!(
        "`{what}` failed in {} ({}):\n{said}\n{remedy}",
        stage.display(),
        output.status
    ))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    if !from.is_dir() {
        // Written only when different, for whoever watches the times of these files.
        let bytes = read(from)?;
        if fs::read(to).is_ok_and(|old| old == bytes) {
            return Ok(());
        }
        return fs::write(to, bytes).map_err(|error| format!("writing {}: {error}", to.display()));
    }
    fs::create_dir_all(to).map_err(|error| format!("creating {}: {error}", to.display()))?;
    let entries = fs::read_dir(from).map_err(|error| format!("{}: {error}", from.display()))?;
    for entry in entries {
        let entry = entry.map_err(|error| format!("{}: {error}", from.display()))?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("reading {}: {error}", path.display()))
}
