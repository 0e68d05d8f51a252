//! Measurements that are killed or asked to end.

use super::*;

/// Namespaces of the process `pid`.
pub(super) fn namespaces(pid: u32) -> BTreeSet<String> {
    let names = fs::read_dir("/run/netns").into_iter().flatten();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.starts_with(&format!("hkyk-{pid}-")))
        .collect()
}

/// Temporary directories of the process `pid`.
fn scratch(pid: u32) -> Vec<PathBuf> {
    let entries = fs::read_dir(std::env::temp_dir()).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let prefix = format!("hikyaku-lab-{pid}-");
    paths
        .filter(|path| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().starts_with(&prefix)
        })
        .collect()
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

pub(super) fn wait_for(what: &str, mut test: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !test() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Runs [`SLOW`] on two lanes until it has some records, and then sends it signals. Returns its
/// process id and exit status; the latter is 128 and the signal's number if it died of one.
fn interrupted(file: &Path, out: &Path, signals: &[Signal]) -> (u32, Option<i32>) {
    let arguments = [
        "run",
        file.to_str().unwrap(),
        "--lanes",
        "2",
        "--out",
        out.to_str().unwrap(),
    ];
    let mut child = lab(&arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id();
    let runs = out.join("runs.jsonl");
    wait_for("some records", || lines(&runs) >= 3);
    for &signal in signals {
        kill_process(Pid::from_child(&child), signal).unwrap();
        thread::sleep(Duration::from_millis(50));
    }
    let status = child.wait().unwrap();
    let died = status.signal().map(|signal| 128 + signal);
    (pid, status.code().or(died))
}

#[test]
fn a_killed_measurement_goes_on_and_leaves_nothing_behind() {
    let Some(_alone) = alone("a_killed_measurement_goes_on_and_leaves_nothing_behind") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let (file, out) = (
        directory.path().join("slow.toml"),
        directory.path().join("out"),
    );
    fs::write(&file, SLOW).unwrap();
    let runs = out.join("runs.jsonl");
    let (pid, _) = interrupted(&file, &out, &[Signal::KILL]);
    assert!(!namespaces(pid).is_empty(), "a kill leaves namespaces");
    assert_eq!(scratch(pid).len(), 1, "and its temporary directory");
    assert!(lab(&["clean"]).status().unwrap().success());
    assert_eq!(namespaces(pid), BTreeSet::new());
    assert_eq!(scratch(pid), Vec::<PathBuf>::new());

    let kept = read(&runs).unwrap();
    let mut append = fs::OpenOptions::new().append(true).open(&runs).unwrap();
    append
        .write_all(b"{\"experiment\":\"slow\",\"cell\"")
        .unwrap();
    let arguments = [
        "run",
        file.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
    ];
    let output = lab(&arguments).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    // Disturbed sessions are in the records, and are measured again, up to three times.
    let good = kept
        .iter()
        .filter(|run| run.disturbed.is_none() || run.attempt == 2);
    let done: BTreeSet<u32> = good.map(|run| run.repeat).collect();
    let left = format!("{} runs to go", 12 - done.len());
    assert!(text(&output).contains(&left), "{left}: {}", text(&output));
    let all = read(&runs).unwrap();
    assert_eq!(all[..kept.len()], kept[..]);
    let repeats: BTreeSet<u32> = all.iter().map(|run| run.repeat).collect();
    assert_eq!(repeats, (0..12).collect());

    // Now there is nothing more to do.
    let output = lab(&arguments).output().unwrap();
    assert!(text(&output).contains("0 runs to go"), "{}", text(&output));
    assert_eq!(read(&runs).unwrap(), all);
}

#[test]
fn a_signal_ends_it_cleanly() {
    let Some(_alone) = alone("a_signal_ends_it_cleanly") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("slow.toml");
    // No machine is so busy that it ends by itself before the signal.
    let endless = SLOW.replace("repeats = 12", "repeats = 1000");
    fs::write(&file, endless).unwrap();
    // It may end before the second signal comes.
    let cases: [(&[Signal], &[i32]); 3] = [
        (&[Signal::INT], &[130]),
        (&[Signal::HUP], &[129]),
        (&[Signal::INT, Signal::TERM], &[130, 143]),
    ];
    for (i, (signals, codes)) in cases.into_iter().enumerate() {
        let out = directory.path().join(i.to_string());
        let (pid, status) = interrupted(&file, &out, signals);
        assert!(codes.contains(&status.unwrap()), "{signals:?}: {status:?}");
        assert_eq!(namespaces(pid), BTreeSet::new(), "{signals:?}");
        assert_eq!(scratch(pid), Vec::<PathBuf>::new(), "{signals:?}");
        let runs = read(&out.join("runs.jsonl")).unwrap();
        let failed = runs.iter().filter(|run| run.outcome == Outcome::Failed);
        assert_eq!(failed.count(), 0, "{signals:?}");
        let bytes = fs::read(out.join("runs.jsonl")).unwrap();
        assert_eq!(bytes.last(), Some(&b'\n'));
    }
}
