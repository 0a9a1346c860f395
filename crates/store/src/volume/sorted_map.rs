//! An ordered map of which a copy costs nothing: a tree whose nodes copies share. A change copies
//! the nodes on its way that somebody else has, so a copy stays as it is.

use hearth_sync::primitive::Arc;

/// Key of an entry.
pub(crate) type SharedKey = Arc<[u8]>;
/// Value of an entry; `None` where the key is gone.
pub(crate) type Value = Option<Arc<[u8]>>;

/// MapRange of a node at most.
const MOST: usize = 32;

/// See the module.
#[derive(Clone, Default)]
pub(crate) struct SortedMap {
    root: Option<Arc<Node>>,
}

#[derive(Clone)]
enum Node {
    /// By rising key, never empty.
    Leaf(Vec<(SharedKey, Value)>),
    /// Nodes with their first keys, rising; never empty.
    Inner(Vec<(SharedKey, Arc<Node>)>),
}

impl SortedMap {
    /// The value of `key`.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Value> {
        let mut node = &**self.root.as_ref()?;
        loop {
            match node {
                Node::Leaf(entries) => {
                    let at = entries.binary_search_by(|(known, _)| (**known).cmp(key));
                    return at.ok().map(|at| &entries[at].1);
                }
                Node::Inner(nodes) => node = &nodes[child(nodes, key)].1,
            }
        }
    }

    /// Puts an entry; returns the value that the key had.
    pub(crate) fn insert(&mut self, key: SharedKey, value: Value) -> Option<Value> {
        let Some(root) = &mut self.root else {
            self.root = Some(Arc::new(Node::Leaf(vec![(key, value)])));
            return None;
        };
        let (before, split) = insert(Arc::make_mut(root), key, value);
        if let Some((first_behind, behind)) = split {
            let first = first_key(root).clone();
            let halves = vec![(first, Arc::clone(root)), (first_behind, behind)];
            *root = Arc::new(Node::Inner(halves));
        }
        before
    }

    /// All entries.
    pub(crate) fn iter(&self) -> MapRange<'_> {
        self.range(&[], None)
    }

    /// MapRange from key `from` on and before `to`, to the end if that is `None`.
    pub(crate) fn range<'m>(&'m self, from: &[u8], to: Option<&'m [u8]>) -> MapRange<'m> {
        let mut entries = MapRange {
            inner: Vec::new(),
            leaf: [].iter(),
            to,
        };
        if let Some(root) = &self.root {
            entries.descend(root, from);
        }
        entries
    }
}

/// The place of the node that has `key`, or would have it.
fn child(nodes: &[(SharedKey, Arc<Node>)], key: &[u8]) -> usize {
    nodes
        .partition_point(|(first, _)| **first <= *key)
        .saturating_sub(1)
}

fn first_key(node: &Node) -> &SharedKey {
    match node {
        Node::Leaf(entries) => &entries[0].0,
        Node::Inner(nodes) => &nodes[0].0,
    }
}

/// A node that belongs behind another one, with its first key.
type Split = Option<(SharedKey, Arc<Node>)>;

fn insert(node: &mut Node, key: SharedKey, value: Value) -> (Option<Value>, Split) {
    match node {
        Node::Leaf(entries) => match entries.binary_search_by(|(known, _)| known.cmp(&key)) {
            Ok(at) => (Some(std::mem::replace(&mut entries[at].1, value)), None),
            Err(at) => {
                entries.insert(at, (key, value));
                (None, split(entries, Node::Leaf))
            }
        },
        Node::Inner(nodes) => {
            let at = child(nodes, &key);
            let (first, node) = &mut nodes[at];
            if key < *first {
                *first = Arc::clone(&key);
            }
            let (before, behind) = insert(Arc::make_mut(node), key, value);
            if let Some(behind) = behind {
                nodes.insert(at + 1, behind);
            }
            (before, split(nodes, Node::Inner))
        }
    }
}

/// Takes a part of what a node has too much. Keys that come in order leave full nodes behind.
fn split<T>(all: &mut Vec<(SharedKey, T)>, node: fn(Vec<(SharedKey, T)>) -> Node) -> Split {
    if all.len() <= MOST {
        return None;
    }
    let behind = all.split_off(MOST * 3 / 4);
    Some((Arc::clone(&behind[0].0), Arc::new(node(behind))))
}

/// MapRange of a range, in order.
pub(crate) struct MapRange<'m> {
    /// What is left of the nodes above the leaf, the topmost first.
    inner: Vec<std::slice::Iter<'m, (SharedKey, Arc<Node>)>>,
    leaf: std::slice::Iter<'m, (SharedKey, Value)>,
    to: Option<&'m [u8]>,
}

impl<'m> MapRange<'m> {
    /// Goes to the first entry of `node` that is not before `from`, or behind the node.
    fn descend(&mut self, mut node: &'m Node, from: &[u8]) {
        loop {
            match node {
                Node::Leaf(entries) => {
                    let at = entries.partition_point(|(key, _)| **key < *from);
                    self.leaf = entries[at..].iter();
                    return;
                }
                Node::Inner(nodes) => {
                    let at = child(nodes, from);
                    self.inner.push(nodes[at + 1..].iter());
                    node = &nodes[at].1;
                }
            }
        }
    }
}

impl<'m> Iterator for MapRange<'m> {
    type Item = (&'m SharedKey, &'m Value);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((key, value)) = self.leaf.next() {
                let is_over = self.to.is_some_and(|to| **key >= *to);
                return (!is_over).then_some((key, value));
            }
            match self.inner.last_mut()?.next() {
                Some((_, node)) => self.descend(node, &[]),
                None => drop(self.inner.pop()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    type Model = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

    fn next(seed: &mut u64) -> u64 {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed
    }

    fn key(seed: &mut u64) -> Vec<u8> {
        let number = next(seed) % 3000;
        number.to_be_bytes()[6 - (number % 3) as usize..].to_vec()
    }

    fn check(map: &SortedMap, model: &Model, seed: &mut u64) {
        let (from, to) = (key(seed), key(seed));
        for to in [None, Some(&to[..])] {
            let all = map.range(&from, to);
            let all: Vec<_> = all
                .map(|(key, value)| (key.to_vec(), value.as_deref().map(<[u8]>::to_vec)))
                .collect();
            let is_within = |key: &[u8]| *key >= *from && to.is_none_or(|to| key < to);
            let right = model.iter().filter(|(key, _)| is_within(key));
            let right: Vec<_> = right.map(|(k, v)| (k.clone(), v.clone())).collect();
            assert_eq!(all, right);
        }
        let right = model.get(&from).map(Option::as_deref);
        assert_eq!(map.get(&from).map(Option::as_deref), right);
        assert_eq!(map.iter().count(), model.len());
    }

    #[test]
    fn a_map_equals_a_sorted_one_and_copies_stay_as_they_were() {
        for seed in 1..=10_u64 {
            let mut seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let (mut map, mut model) = (SortedMap::default(), Model::new());
            let mut copies = Vec::new();
            for round in 0..4000 {
                let key = key(&mut seed);
                let value = (!next(&mut seed).is_multiple_of(4)).then(|| key.repeat(2));
                let before = map.insert(key.clone().into(), value.clone().map(Arc::from));
                let before = before.map(|value| value.map(|value| value.to_vec()));
                assert_eq!(before, model.insert(key, value));
                if round % 400 == 0 {
                    check(&map, &model, &mut seed);
                    copies.push((map.clone(), model.clone()));
                }
            }
            for (map, model) in &copies {
                check(map, model, &mut seed);
            }
        }
    }

    #[test]
    fn a_copy_costs_nothing_and_a_change_beside_it_a_few_nodes() {
        const ALL: usize = 50_000;
        let mut map = SortedMap::default();
        let key = |n: usize| SharedKey::from(&n.to_be_bytes()[..]);
        for n in 0..ALL {
            map.insert(key(n), None);
        }
        let owners = |map: &SortedMap| -> usize {
            let keys = map.iter().map(|(key, _)| Arc::strong_count(key));
            keys.sum()
        };
        let before = owners(&map);
        let copy = map.clone();
        let from = key(ALL / 2);
        assert_eq!(copy.range(&from, None).take(3).count(), 3);
        assert_eq!(owners(&map), before);
        map.insert(key(ALL / 2), Some(Arc::from(&b"new"[..])));
        let more = owners(&map) - before;
        assert!(
            (1..=4 * MOST).contains(&more),
            "{more} keys have another owner"
        );
        assert_eq!(copy.get(&from), Some(&None));
        assert!(map.get(&from).is_some_and(Option::is_some));
    }
}
