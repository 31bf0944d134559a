//! Modes whatever the umask, and what another user may have put into a shared directory.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};

use super::*;

/// Another user, by a number that no account needs to have.
const SOMEBODY: u32 = 54_321;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("it is there").mode() & 0o777
}

/// A directory like `/tmp`, inside one of this test.
fn shared() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::set_permissions(directory.path(), Permissions::from_mode(0o1777)).expect("its mode");
    directory
}

fn refused<T: std::fmt::Debug>(result: io::Result<T>) -> String {
    let error = result.expect_err("another user's");
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
    error.to_string()
}

#[test]
fn what_is_made_is_for_its_owner_alone() {
    // The umask is the process's: other tests of this program make nothing that it would open.
    let before = rustix::process::umask(rustix::fs::Mode::empty());
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    write(&at("written"), b"a").expect("a file");
    replace(&at("replaced"), b"a").expect("a file");
    create_new(&at("new"), OpenOptions::new().append(true)).expect("a file");
    open(&at("opened"), OpenOptions::new().read(true).write(true)).expect("a file");
    create_dir_all(&at("one/two")).expect("directories");
    create_dir(&at("three")).expect("a directory");
    rustix::process::umask(before);
    for file in ["written", "replaced", "new", "opened"] {
        assert_eq!(mode(&at(file)), 0o600, "{file}");
    }
    for folder in ["one", "one/two", "three"] {
        assert_eq!(mode(&at(folder)), 0o700, "{folder}");
    }
}

#[test]
fn a_file_that_is_there_keeps_its_mode_and_a_link_of_ones_own_is_followed() {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, link) = (directory.path().join("page"), directory.path().join("link"));
    fs::write(&file, "long before").expect("a file");
    fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("its mode");
    symlink(&file, &link).expect("a link");
    write(&link, b"now").expect("written");
    assert_eq!(
        (fs::read(&file).expect("it"), mode(&file)),
        (b"now".to_vec(), 0o644)
    );
    let again = create_new(&link, OpenOptions::new().write(true));
    assert_eq!(
        again.expect_err("there").kind(),
        io::ErrorKind::AlreadyExists
    );
}

#[test]
fn no_link_and_no_second_name_is_written_to_in_a_shared_directory() {
    let (directory, own) = (shared(), tempfile::tempdir().expect("a directory"));
    let at = |name: &str| directory.path().join(name);
    let kept = own.path().join("kept");
    fs::write(&kept, "kept").expect("a file");
    symlink(&kept, at("link")).expect("a link");
    symlink(own.path().join("absent"), at("dangling")).expect("a link");
    fs::hard_link(&kept, at("hard")).expect("a link");
    for name in ["link", "dangling"] {
        assert!(refused(write(&at(name), b"x")).contains("is a link"));
    }
    assert!(refused(write(&at("hard"), b"x")).contains("another name"));
    assert_eq!(fs::read(&kept).expect("it"), b"kept");
    assert!(!own.path().join("absent").exists());
    // The temporary name of a replaced file may be taken by a link.
    symlink(&kept, at("page.new")).expect("a link");
    replace(&at("page"), b"x").expect("replaced");
    assert_eq!(fs::read(&kept).expect("it"), b"kept");
    write(&at("own"), b"x").expect("a file of one's own");
    write(&at("own"), b"y").expect("again");
}

#[test]
fn what_another_user_put_into_a_shared_directory_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return; // Only root gives files away; `.ci/run` is root.
    }
    let directory = shared();
    let at = |name: &str| directory.path().join(name);
    for name in ["file", "runs/inside"] {
        create_dir_all(directory_of(&at(name))).expect("a directory");
        fs::write(at(name), "theirs").expect("a file");
    }
    for name in ["file", "runs"] {
        chown(at(name), Some(SOMEBODY), None).expect("given away");
    }
    assert!(refused(write(&at("file"), b"x")).contains("uid 54321"));
    refused(write(&at("runs/inside"), b"x"));
    refused(create_dir_all(&at("runs")));
    refused(create_dir(&at("runs/new")));
    refused(replace(&at("runs/page"), b"x"));
    assert_eq!(fs::read(at("runs/inside")).expect("it"), b"theirs");
    // The same through a link of one's own elsewhere.
    let own = tempfile::tempdir().expect("a directory");
    symlink(at("runs"), own.path().join("link")).expect("a link");
    refused(write(&own.path().join("link/inside"), b"x"));
}
