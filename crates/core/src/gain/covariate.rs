//! Takes out of each client's outcome the part that its neighbours in its network explain.
//!
//! Networks differ far more than groups do, and a client's network does not depend on its group. So the
//! mean of the other clients of the network is taken off. It is shrunk towards that of all (James, Stein
//! 1961), by the share that a one-way analysis of variance gives. It counts deviations from each group's own
//! mean, so that the gain stays where it is. The estimate is as unbiased as before, and surer (Deng, Xu,
//! Kohavi, Walker, WSDM 2013).

use super::moments::Moments;

/// The outcomes of a network's clients, by group.
pub(super) type Cell = [Moments; 2];

/// The change of a client's outcome: `factor` times it, plus the shift of its group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) factor: f64,
    pub(super) shifts: [f64; 2],
}

impl Change {
    const NONE: Self = Self {
        factor: 1.0,
        shifts: [0.0; 2],
    };
}

/// The change for each network.
pub(super) fn changes(cells: &[Cell]) -> Vec<Change> {
    let means = together(cells).map(|group| group.mean);
    match shrinkage(cells, means) {
        Some(shrinkage) => {
            let change = |cell| change(cell, means, shrinkage);
            cells.iter().map(change).collect()
        }
        None => vec![Change::NONE; cells.len()],
    }
}

/// The outcomes of both groups after the changes.
pub(super) fn changed(cells: &[Cell]) -> [Moments; 2] {
    let changes = changes(cells);
    let mut groups = [Moments::default(); 2];
    for (cell, change) in cells.iter().zip(&changes) {
        for ((group, moments), shift) in groups.iter_mut().zip(cell).zip(change.shifts) {
            *group = group.joined(&moments.mapped(change.factor, shift));
        }
    }
    groups
}

fn together(cells: &[Cell]) -> [Moments; 2] {
    let none = [Moments::default(); 2];
    cells
        .iter()
        .fold(none, |[a, b], [c, d]| [a.joined(c), b.joined(d)])
}

/// With n - 1 neighbours, their sum of deviations over n - 1 + shrinkage is taken off.
fn change(cell: &Cell, means: [f64; 2], shrinkage: f64) -> Change {
    let (n, sum) = deviations(cell, means);
    if n < 2.0 {
        return Change::NONE;
    }
    let divisor = n - 1.0 + shrinkage;
    Change {
        factor: 1.0 + 1.0 / divisor,
        shifts: means.map(|mean| -(mean + sum) / divisor),
    }
}

/// Clients of a network, and the sum of their deviations from their groups' means.
fn deviations(cell: &Cell, means: [f64; 2]) -> (f64, f64) {
    let parts = cell.iter().zip(means);
    parts.fold((0.0, 0.0), |(n, sum), (group, mean)| {
        (n + group.n, sum + group.n * (group.mean - mean))
    })
}

/// The variance within networks over that between them; `None` where networks do not differ as far as is
/// known.
fn shrinkage(cells: &[Cell], means: [f64; 2]) -> Option<f64> {
    let (mut networks, mut n, mut squared_sizes) = (0.0, 0.0, 0.0);
    let (mut between, mut all) = (0.0, 0.0);
    for cell in cells {
        let (size, sum) = deviations(cell, means);
        if size <= 0.0 {
            continue;
        }
        networks += 1.0;
        n += size;
        squared_sizes += size * size;
        between += sum * sum / size;
        let groups = cell.iter().zip(means);
        all += groups
            .map(|(group, mean)| group.squares_around(mean))
            .sum::<f64>();
    }
    if networks < 2.0 || n <= networks {
        return None;
    }
    let within = ((all - between) / (n - networks)).max(0.0);
    let usual_size = (n - squared_sizes / n) / (networks - 1.0);
    let variance = (between / (networks - 1.0) - within) / usual_size;
    (variance > 0.0).then(|| within / variance)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(hikyaku: &[f64], hold_back: &[f64]) -> Cell {
        [hikyaku, hold_back].map(|values| {
            let mut moments = Moments::default();
            for &value in values {
                moments.add(value);
            }
            moments
        })
    }

    #[test]
    fn unlike_networks_are_taken_out() {
        let cells = [
            cell(&[1.0, 1.2, 0.8, 1.1], &[1.3, 1.0]),
            cell(&[5.0, 5.2], &[5.3, 5.0, 4.8, 5.1]),
        ];
        let before = together(&cells);
        let after = changed(&cells);
        for group in 0..2 {
            assert!((before[group].n - after[group].n).abs() < 1e-9);
            assert!(
                after[group].variance() < before[group].variance() / 4.0,
                "{after:?}"
            );
        }
        let gap = |groups: &[Moments; 2]| (groups[0].mean - groups[1].mean).abs();
        assert!(gap(&before) > 1.0 && gap(&after) < 0.5, "{after:?}");
    }

    #[test]
    fn a_network_alone_and_alike_ones_change_nothing() {
        let alone = [cell(&[1.0, 2.0, 3.0], &[2.0, 5.0])];
        let alike = [
            cell(&[1.0, 3.0], &[1.0, 3.0]),
            cell(&[3.0, 1.0], &[3.0, 1.0]),
        ];
        for cells in [&alone[..], &alike] {
            let (before, after) = (together(cells), changed(cells));
            for group in 0..2 {
                assert!((before[group].mean - after[group].mean).abs() < 1e-9);
                assert!((before[group].deviations - after[group].deviations).abs() < 1e-9);
            }
        }
        // Clients without a neighbour keep their outcomes.
        let single = [cell(&[1.0], &[]), cell(&[], &[7.0]), cell(&[2.0, 2.1], &[])];
        let changes = changes(&single);
        assert!((changes[0].factor - 1.0).abs() < 1e-9 && changes[1].shifts == [0.0; 2]);
    }
}
