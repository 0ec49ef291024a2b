//! Finds anomalies in a history of transactions that read lists and append to them.
//!
//! The final list of a key is the order of its committed appends. It gives edges between transactions:
//! *ww* from an append to the next, *wr* from the last append of a list to its reader, *rw* from a
//! reader to the next append, and *real time* from a commit to what begins later. A cycle is an
//! anomaly: any cycle is one for strict serializability, one with at most one rw for a snapshot, one
//! without rw for read committed (Adya: G0, G1c, G-single, G2).

use std::collections::{BTreeMap, HashMap, HashSet};

/// An operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Read this list from a key.
    Read(u64, Vec<u64>),
    /// Appended a unique number to the list of a key.
    Append(u64, u64),
    /// Appended a number and took it back.
    Undone(u64, u64),
}

/// A transaction, committed or not.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) actions: Vec<Action>,
    pub(super) is_committed: bool,
    pub(super) begun: u64,
    pub(super) ended: u64,
}

/// The transactions of a run, and the lists it ended with.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) events: Vec<Event>,
    pub(super) last: BTreeMap<u64, Vec<u64>>,
}

/// The isolation guarantee of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Promise {
    ReadCommitted,
    Snapshot,
    StrictSerializable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    /// A dependency: ww, wr, or real time.
    Depends,
    /// An anti-dependency: rw.
    Overwritten,
}

/// Returns an error that describes the first anomaly that breaks the promise.
pub(super) fn check(history: &History, promise: Promise) -> Result<(), String> {
    let writers = writers(history)?;
    check_final_lists(history, &writers)?;
    let graph = graph(history, &writers, promise)?;
    if let Some(cycle) = cycle(&graph, |edge| edge == Edge::Depends) {
        return Err(format!(
            "G1c: a cycle of dependencies through transaction {cycle}"
        ));
    }
    match promise {
        Promise::ReadCommitted => Ok(()),
        Promise::Snapshot => check_single(&graph),
        Promise::StrictSerializable => match cycle(&graph, |_| true) {
            Some(cycle) => Err(format!("G2: a cycle through transaction {cycle}")),
            None => Ok(()),
        },
    }
}

/// The committed transaction of each appended number.
fn writers(history: &History) -> Result<HashMap<u64, usize>, String> {
    let mut writers = HashMap::new();
    for (at, event) in history
        .events
        .iter()
        .enumerate()
        .filter(|(_, e)| e.is_committed)
    {
        for action in &event.actions {
            if let Action::Append(_, value) = action
                && writers.insert(*value, at).is_some()
            {
                return Err(format!("the number {value} is appended twice"));
            }
        }
    }
    Ok(writers)
}

/// Each committed append is in its final list once, and nothing else is.
fn check_final_lists(history: &History, writers: &HashMap<u64, usize>) -> Result<(), String> {
    let mut seen = HashSet::new();
    for (key, list) in &history.last {
        for value in list {
            if !writers.contains_key(value) {
                return Err(format!("key {key} has {value}, which was not committed"));
            }
            if !seen.insert(*value) {
                return Err(format!("key {key} has {value} twice"));
            }
        }
    }
    match writers.keys().find(|value| !seen.contains(value)) {
        Some(value) => Err(format!("the append of {value} is lost")),
        None => Ok(()),
    }
}

/// Edges from each transaction; nodes behind the transactions are moments of real time.
type Graph = Vec<Vec<(usize, Edge)>>;

fn graph(
    history: &History,
    writers: &HashMap<u64, usize>,
    promise: Promise,
) -> Result<Graph, String> {
    let mut graph: Graph = vec![Vec::new(); history.events.len()];
    let mut link = |from: usize, to: usize, edge: Edge| {
        if from != to {
            graph[from].push((to, edge));
        }
    };
    for list in history.last.values() {
        for pair in list.windows(2) {
            link(writers[&pair[0]], writers[&pair[1]], Edge::Depends);
        }
    }
    let empty = Vec::new();
    for (at, event) in history
        .events
        .iter()
        .enumerate()
        .filter(|(_, e)| e.is_committed)
    {
        // Own appends so far, which reads see behind those of others.
        let mut own: HashMap<u64, Vec<u64>> = HashMap::new();
        for action in &event.actions {
            match action {
                Action::Append(key, value) => own.entry(*key).or_default().push(*value),
                Action::Undone(..) => {}
                Action::Read(key, list) => {
                    let own = own.get(key).map_or(&empty, |own| own);
                    let Some(others) = list.strip_suffix(own.as_slice()) else {
                        return Err(format!(
                            "transaction {at} does not see its own {own:?}: {list:?}"
                        ));
                    };
                    let last = history.last.get(key).unwrap_or(&empty);
                    if !last.starts_with(others) {
                        return Err(format!(
                            "transaction {at} read {others:?} of key {key}, no beginning of {last:?}"
                        ));
                    }
                    if let Some(value) = others.last() {
                        link(writers[value], at, Edge::Depends);
                        // A transaction's appends to a key are seen together.
                        let next = last.get(others.len());
                        if next.is_some_and(|next| {
                            writers[next] == writers[value] && writers[value] != at
                        }) {
                            return Err(format!(
                                "transaction {at} read a part of transaction {}",
                                writers[value]
                            ));
                        }
                    }
                    // The next append by somebody else.
                    let behind = last[others.len()..]
                        .iter()
                        .find(|next| writers[*next] != at);
                    if let Some(next) = behind {
                        link(at, writers[next], Edge::Overwritten);
                    }
                }
            }
        }
    }
    if promise == Promise::StrictSerializable {
        add_real_time(history, &mut graph);
    }
    Ok(graph)
}

/// Adds a node for each end of a transaction, in order; a transaction follows the last end before it.
fn add_real_time(history: &History, graph: &mut Graph) {
    let committed = |(_, event): &(usize, &Event)| event.is_committed;
    let mut ends: Vec<(u64, usize)> = history
        .events
        .iter()
        .enumerate()
        .filter(committed)
        .map(|(at, event)| (event.ended, at))
        .collect();
    ends.sort_unstable();
    let first = graph.len();
    for (index, (_, at)) in ends.iter().enumerate() {
        graph[*at].push((first + index, Edge::Depends));
        graph.push(Vec::new());
        if index > 0 {
            graph[first + index - 1].push((first + index, Edge::Depends));
        }
    }
    for (at, event) in history.events.iter().enumerate().filter(committed) {
        let before = ends.partition_point(|(ended, _)| *ended < event.begun);
        if before > 0 {
            graph[first + before - 1].push((at, Edge::Depends));
        }
    }
}

/// Removes what nothing precedes, again and again; returns a node of a cycle if something is left.
fn cycle(graph: &Graph, counts: impl Fn(Edge) -> bool) -> Option<usize> {
    let mut incoming = vec![0_usize; graph.len()];
    for (to, edge) in graph.iter().flatten() {
        incoming[*to] += usize::from(counts(*edge));
    }
    let mut free: Vec<usize> = (0..graph.len()).filter(|&at| incoming[at] == 0).collect();
    while let Some(at) = free.pop() {
        for (to, edge) in &graph[at] {
            if counts(*edge) {
                incoming[*to] -= 1;
                if incoming[*to] == 0 {
                    free.push(*to);
                }
            }
        }
    }
    incoming.iter().position(|&count| count > 0)
}

/// Looks for a cycle with exactly one anti-dependency.
fn check_single(graph: &Graph) -> Result<(), String> {
    for (from, edges) in graph.iter().enumerate() {
        for (to, _) in edges.iter().filter(|(_, edge)| *edge == Edge::Overwritten) {
            let mut seen = vec![false; graph.len()];
            let mut next = vec![*to];
            while let Some(at) = next.pop() {
                if at == from {
                    return Err(format!(
                        "G-single: transaction {from} read what {to} overwrote, and follows it"
                    ));
                }
                if std::mem::replace(&mut seen[at], true) {
                    continue;
                }
                let depends = graph[at].iter().filter(|(_, edge)| *edge == Edge::Depends);
                next.extend(depends.map(|(to, _)| *to));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Action::{Append, Read, Undone};
    use super::*;

    fn event(begun: u64, ended: u64, actions: &[Action]) -> Event {
        Event {
            actions: actions.to_vec(),
            is_committed: true,
            begun,
            ended,
        }
    }

    fn history(events: &[Event], last: &[(u64, &[u64])]) -> History {
        History {
            events: events.to_vec(),
            last: last
                .iter()
                .map(|(key, list)| (*key, list.to_vec()))
                .collect(),
        }
    }

    /// Which promises a history breaks: read committed, snapshot, strict serializable.
    fn breaks(history: &History) -> [bool; 3] {
        [
            Promise::ReadCommitted,
            Promise::Snapshot,
            Promise::StrictSerializable,
        ]
        .map(|promise| check(history, promise).is_err())
    }

    /// A name, transactions, final lists, and the promises that they break.
    type Case = (
        &'static str,
        Vec<Event>,
        &'static [(u64, &'static [u64])],
        [bool; 3],
    );

    const NONE: [bool; 3] = [false; 3];
    const ALL: [bool; 3] = [true; 3];

    #[test]
    fn a_serial_history_breaks_nothing() {
        let events = [
            event(0, 1, &[Append(1, 10), Append(2, 20)]),
            event(
                2,
                3,
                &[Read(1, vec![10]), Append(1, 11), Read(1, vec![10, 11])],
            ),
            event(
                4,
                5,
                &[Undone(1, 12), Read(1, vec![10, 11]), Read(2, vec![20])],
            ),
        ];
        let last: &[(u64, &[u64])] = &[(1, &[10, 11]), (2, &[20])];
        assert_eq!(breaks(&history(&events, last)), NONE);
    }

    #[test]
    fn planted_anomalies_are_found_where_they_are_forbidden() {
        let mut aborted = event(0, 1, &[Append(1, 10)]);
        aborted.is_committed = false;
        let cases: [Case; 11] = [
            ("aborted write", vec![aborted.clone()], &[(1, &[10])], ALL),
            (
                "aborted read",
                vec![aborted, event(0, 1, &[Read(1, vec![10])])],
                &[],
                ALL,
            ),
            (
                "lost append",
                vec![event(0, 1, &[Append(1, 10)])],
                &[(1, &[])],
                ALL,
            ),
            (
                "doubled append",
                vec![event(0, 1, &[Append(1, 10)])],
                &[(1, &[10, 10])],
                ALL,
            ),
            (
                "part of a transaction",
                vec![
                    event(0, 9, &[Append(1, 10), Append(1, 11)]),
                    event(0, 9, &[Read(1, vec![10])]),
                ],
                &[(1, &[10, 11])],
                ALL,
            ),
            (
                "own write unseen",
                vec![event(0, 9, &[Append(1, 10), Read(1, vec![])])],
                &[(1, &[10])],
                ALL,
            ),
            (
                "dirty writes",
                vec![
                    event(0, 9, &[Append(1, 10), Append(2, 20)]),
                    event(0, 9, &[Append(1, 11), Append(2, 21)]),
                ],
                &[(1, &[10, 11]), (2, &[21, 20])],
                ALL,
            ),
            (
                "circular information flow",
                vec![
                    event(0, 9, &[Append(1, 10), Read(2, vec![20])]),
                    event(0, 9, &[Append(2, 20), Read(1, vec![10])]),
                ],
                &[(1, &[10]), (2, &[20])],
                ALL,
            ),
            (
                "read skew",
                vec![
                    event(0, 9, &[Append(1, 10), Append(2, 20)]),
                    event(0, 9, &[Read(1, vec![10]), Read(2, vec![])]),
                ],
                &[(1, &[10]), (2, &[20])],
                [false, true, true],
            ),
            (
                "write skew",
                vec![
                    event(0, 9, &[Read(1, vec![]), Append(2, 20)]),
                    event(0, 9, &[Read(2, vec![]), Append(1, 10)]),
                ],
                &[(1, &[10]), (2, &[20])],
                [false, false, true],
            ),
            (
                "stale read",
                vec![
                    event(0, 1, &[Append(1, 10)]),
                    event(2, 3, &[Read(1, vec![])]),
                ],
                &[(1, &[10])],
                [false, false, true],
            ),
        ];
        for (name, events, last, expected) in cases {
            assert_eq!(breaks(&history(&events, last)), expected, "{name}");
        }
    }

    #[test]
    fn a_long_fork_breaks_a_serial_order() {
        let events = [
            event(0, 9, &[Append(1, 10)]),
            event(0, 9, &[Append(2, 20)]),
            event(0, 9, &[Read(1, vec![10]), Read(2, vec![])]),
            event(0, 9, &[Read(1, vec![]), Read(2, vec![20])]),
        ];
        let found = history(&events, &[(1, &[10]), (2, &[20])]);
        assert_eq!(breaks(&found), [false, false, true]);
    }
}
