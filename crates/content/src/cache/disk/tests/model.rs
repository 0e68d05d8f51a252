use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Put(u8, Vec<u8>, Vec<u8>),
    Abandon(u8),
    Remove(u8),
    Purge(Purge),
    Head(u8, Vec<u8>),
    Reopen { waits: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let n = || 0_u8..10;
    let bytes = |most| prop::collection::vec(any::<u8>(), 0..most);
    let purge = prop_oneof![
        n().prop_map(|n| Purge::Url(url(n).into())),
        n().prop_map(|n| Purge::Prefix(format!("https://a/{}/", n % 4).into())),
        n().prop_map(|n| Purge::Tag(format!("t{}", n % 3).into())),
    ];
    let step = prop_oneof![
        6 => (n(), bytes(300), bytes(9000)).prop_map(|(n, head, body)| Step::Put(n, head, body)),
        1 => n().prop_map(Step::Abandon),
        1 => n().prop_map(Step::Remove),
        1 => purge.prop_map(Step::Purge),
        3 => (n(), bytes(900)).prop_map(|(n, head)| Step::Head(n, head)),
        1 => any::<bool>().prop_map(|waits| Step::Reopen { waits }),
    ];
    prop::collection::vec(step, 1..40)
}

type Model = BTreeMap<u8, (Vec<u8>, Vec<u8>)>;

fn take(store: &mut Option<Store>, dir: &TempDir, limit: u64, model: &mut Model, step: &Step) {
    let now = store.as_ref().unwrap();
    match step {
        Step::Put(n, head, body) => {
            put(now, *n, head, body).unwrap();
            model.insert(*n, (head.clone(), body.clone()));
        }
        Step::Abandon(n) => {
            let mut writer = now.put(key(*n), b"no", &[], "u").unwrap();
            writer.write(b"no").unwrap();
        }
        Step::Remove(n) => {
            now.remove(&key(*n));
            model.remove(n);
        }
        Step::Purge(purge) => {
            now.purge(purge);
            model.retain(|&n, _| !purge.hits(&url(n), &tags(n)));
        }
        Step::Head(n, head) => {
            if let Some(entry) = now.get(&key(*n)) {
                now.replace_head(&key(*n), entry.id, head).unwrap();
                model.get_mut(n).unwrap().0.clone_from(head);
            }
        }
        Step::Reopen { waits } => {
            *store = None;
            let again = store.insert(open(dir, limit));
            if *waits {
                again.wait_loaded();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn it_holds_what_a_map_holds(steps in steps()) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Some(open(&dir, MUCH));
        let mut model = Model::new();
        for step in &steps {
            take(&mut store, &dir, MUCH, &mut model, step);
            let store = store.as_ref().unwrap();
            for n in 0..10 {
                prop_assert_eq!(get(store, n), model.get(&n).cloned(), "{} after {:?}", n, step);
            }
        }
        let store = store.unwrap();
        store.wait_loaded();
        prop_assert_eq!(store.counts().entries, model.len() as u64);
        prop_assert_eq!(store.counts().bytes, bytes_on_disk(&dir));
        prop_assert_eq!((store.counts().damaged, store.counts().failures), (0, 0));
        prop_assert_eq!(temporary_files(&dir), 0);
    }

    #[test]
    fn it_forgets_but_never_lies_below_a_limit(steps in steps()) {
        let limit = 12 * 4096;
        let dir = tempfile::tempdir().unwrap();
        let mut store = Some(open(&dir, limit));
        let mut model = Model::new();
        for step in &steps {
            take(&mut store, &dir, limit, &mut model, step);
            let store = store.as_ref().unwrap();
            for n in 0..10 {
                let got = get(store, n);
                prop_assert!(got.is_none() || got == model.get(&n).cloned(), "{n} after {step:?}");
            }
        }
        let store = store.unwrap();
        store.wait_loaded();
        prop_assert_eq!(store.counts().bytes, bytes_on_disk(&dir));
        prop_assert!(bytes_on_disk(&dir) <= limit);
    }
}
