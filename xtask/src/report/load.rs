//! The processor time of other processes.

use crate::disk;

/// The share of the processors' time above which its use by other processes, or by the host, is noise.
const NOISE_SHARE: f64 = 0.1;

/// The kernel's counters, in its ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ticks {
    /// Of all processors, idle or not.
    all: u64,
    worked: u64,
    /// Time that the host gave to another machine.
    stolen: u64,
    /// Of this process and the children that it waited for.
    ours: u64,
}

impl Ticks {
    pub(crate) fn now() -> Result<Self, String> {
        let (all, own) = (read_proc("stat")?, read_proc("self/stat")?);
        Self::of(&all, &own).ok_or_else(|| "`/proc/stat` cannot be parsed".to_owned())
    }

    fn of(all: &str, own: &str) -> Option<Self> {
        let numbers = |text: &str| -> Vec<u64> {
            text.split_whitespace().map_while(|number| number.parse().ok()).collect()
        };
        let all = numbers(all.lines().next()?.strip_prefix("cpu ")?);
        let [user, nice, system, idle, waiting, interrupt, soft, stolen, ..] = all[..] else { return None };
        // The name is in parentheses and may contain anything; the used time is in the 14th field and the three after
        // it.
        let own = own.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
        let ours: Vec<u64> = own.map_while(|number| number.parse().ok()).collect();
        let worked = user + nice + system + interrupt + soft;
        let all = worked + idle + waiting + stolen;
        (ours.len() == 4).then(|| Self { all, worked, stolen, ours: ours.iter().sum() })
    }

    /// The shares of the processors' time since `before` that others used and that the host took.
    pub(crate) fn others_since(self, before: Self) -> [f64; 2] {
        let all = self.all.saturating_sub(before.all).max(1) as f64;
        let worked = self.worked.saturating_sub(before.worked);
        let others = worked.saturating_sub(self.ours.saturating_sub(before.ours));
        [others as f64 / all, self.stolen.saturating_sub(before.stolen) as f64 / all]
    }
}

/// The disturbances that make figures worse and less steady: the load before the run, on that number of processors, and
/// the shares of others and of the host during it.
pub(crate) fn noise(load: f64, processors: f64, [others, stolen]: [f64; 2]) -> Vec<String> {
    let mut noise = Vec::new();
    if load > processors {
        noise.push(format!("the load was {load:.2} before it began, on {processors:.0} processors"));
    }
    if others > NOISE_SHARE {
        noise.push(format!("others used {:.0} % of the processors meanwhile", others * 100.0));
    }
    if stolen > NOISE_SHARE {
        noise.push(format!("the host took {:.0} % of them", stolen * 100.0));
    }
    noise
}

/// The average numbers of processes that wanted a processor, over 1, 5 and 15 minutes.
pub(crate) fn averages() -> Result<String, String> {
    Ok(read_proc("loadavg")?.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
}

/// The content of `/proc/<file>`.
pub(crate) fn read_proc(file: &str) -> Result<String, String> {
    let bytes = disk::bytes(std::path::Path::new("/proc"), file)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(all: &str, own: &str) -> Ticks {
        let (all, own) =
            (format!("cpu  {all}\ncpu0 1 2\n"), format!("7 (a ) name) S 1 7 7 0 -1 4 9 9 9 9 {own} 20 0"));
        Ticks::of(&all, &own).unwrap()
    }

    #[test]
    fn the_rest_is_the_others() {
        let before = ticks("100 0 50 800 50 0 0 10 5 0", "10 5 20 5");
        let after = ticks("180 0 70 850 50 0 0 60 5 0", "20 15 40 15");
        // Of 200 ticks 100 were used, 50 of them by this process, and 50 were stolen.
        assert_eq!(after.others_since(before), [0.25, 0.25]);
        assert_eq!(Ticks::of("cpu  1 2 3\n", "7 (a) S"), None);
        assert!(Ticks::now().unwrap().all > 0);
    }

    #[test]
    fn only_a_large_share_is_noise() {
        assert_eq!(noise(2.0, 2.0, [0.1, 0.1]), [""; 0]);
        let all = noise(2.01, 2.0, [0.25, 0.5]).join("; ");
        for message in ["load was 2.01", "on 2 processors", "others used 25 %", "host took 50 %"] {
            assert!(all.contains(message), "{message}: {all}");
        }
    }
}
