"""Generates pairs of google/benchmark result files from a seed, for eval/check-compare-py.

Decides which inputs are worth testing: units, aggregates, missing names, errors, ties, single repetitions, letters of all
kinds, huge and tiny numbers, and every option and mode. Start at `pairs`.
"""

import json
import math
import random

NS_PER = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}

# Each kind is a set of peculiarities; the first ones have none, so that most pairs must be equal
# byte by byte.
KINDS = [
    [], [], [], [], ["ties"], ["single"], ["few"], ["many"], ["uneven"], ["huge"], ["tiny"],
    ["letters"], ["without_places"], ["ints"], ["ties", "few"], ["aggregates_only"], ["coefficients"],
    ["missing"], ["failed"], ["units"], ["zero"], ["wide"], ["nan"], ["apart"], ["missing", "failed", "units"],
    ["thousand"],
]

STEMS = ["BM_memcpy", "BM_copy", "BM_sort<std::vector<int>>", "Fx/Foo", "BM_a b", "x"]
LETTERS = ["BM_größe", "BM_été", "ΒΜ_σ", "BM_ж"]
WIDE = ["BM_漢字", "BM_한국", "ＢＭ"]
ENDS = ["", "/8", "/64", "/4096/threads:2", "/real_time", "/n:1/k:2/iterations:5/manual_time"]


class Maker:
    """Generates one pair of files."""

    def __init__(self, draw, kind):
        self.draw = draw
        self.kind = kind

    def names(self):
        stems = list(STEMS)
        if "letters" in self.kind:
            stems += LETTERS
        if "wide" in self.kind:
            stems += WIDE
        found = [stem + end for stem in self.draw.sample(stems, self.draw.randint(2, 5)) for end in ENDS]
        most = 1 if "thousand" in self.kind else 14
        return self.draw.sample(found, self.draw.randint(1, min(most, len(found))))

    def centre(self):
        if "huge" in self.kind:
            return 10.0 ** self.draw.uniform(8, 17)
        if "tiny" in self.kind:
            return 10.0 ** self.draw.uniform(-12, 0)
        return 10.0 ** self.draw.uniform(-1, 5)

    def repetitions(self):
        if "single" in self.kind:
            return 1
        if "thousand" in self.kind:
            return 1000
        if "few" in self.kind:
            return self.draw.randint(2, 4)
        if "many" in self.kind:
            return self.draw.randint(20, 60)
        return self.draw.choice([1, 2, 3, 5, 8, 9, 9, 10, 12])

    def time(self, centre):
        value = centre * math.exp(self.draw.gauss(0, 0.1))
        if "thousand" in self.kind:
            value = centre
        if "ties" in self.kind:
            value = centre * (1 + self.draw.randint(0, 2) / 10)
        if "ints" in self.kind:
            value = float(round(value))
        if "zero" in self.kind and self.draw.random() < 0.3:
            value = 0.0
        if "nan" in self.kind and self.draw.random() < 0.2:
            value = math.nan
        return value

    def entry(self, name, place, unit, real, cpu, **more):
        entry = {"name": name, "run_name": name, "run_type": "iteration", "threads": 1}
        if "without_places" not in self.kind:
            entry.update(family_index=place[0], per_family_instance_index=place[1])
        entry.update(iterations=self.draw.randint(1, 10**9), real_time=real, cpu_time=cpu, time_unit=unit)
        entry.update(more)
        return entry

    def aggregates(self, name, place, unit, entries):
        """Returns the aggregates that the library adds to several repetitions."""
        found = []
        for kind in ("mean", "median", "stddev", "cv"):
            values = []
            for key in ("real_time", "cpu_time"):
                times = sorted(entry[key] for entry in entries)
                mean = sum(times) / len(times)
                spread = math.sqrt(sum((time - mean) ** 2 for time in times) / (len(times) - 1))
                relative = spread / mean if mean else 0.0
                values.append({"mean": mean, "median": times[len(times) // 2], "stddev": spread, "cv": relative}[kind])
            unit_kind = "percentage" if kind == "cv" else "time"
            found.append(self.entry(
                f"{name}_{kind}", place, unit, *values, run_name=name, run_type="aggregate",
                aggregate_name=kind, aggregate_unit=unit_kind))
        return found

    def coefficients(self, name, place, unit):
        """Returns the entries that a complexity fit adds; they have no times."""
        fit = {"name": f"{name}_BigO", "run_name": name, "run_type": "aggregate", "aggregate_name": "BigO",
               "cpu_coefficient": 1.5, "real_coefficient": 1.6, "big_o": "N", "time_unit": unit}
        rms = {"name": f"{name}_RMS", "run_name": name, "run_type": "aggregate", "aggregate_name": "RMS", "rms": 0.1}
        for entry in (fit, rms):
            entry.update(family_index=place[0], per_family_instance_index=place[1])
        return [fit, rms]

    def side(self, cases, is_contender):
        entries = []
        for place, (name, unit, centre, count) in cases.items():
            if is_contender and "missing" in self.kind and self.draw.random() < 0.3:
                continue
            if is_contender and "uneven" in self.kind:
                count = self.repetitions()
            if is_contender and "units" in self.kind and self.draw.random() < 0.5:
                other = self.draw.choice(list(NS_PER))
                centre, unit = centre * NS_PER[unit] / NS_PER[other], other
            if is_contender:
                name = f"{name}/new" if "apart" in self.kind else name
                centre *= 100 if "thousand" in self.kind else self.draw.choice([1, 1, 1, 0.5, 2, 0.93, 1.05, 100])
            repetitions = []
            for index in range(count):
                more = {"repetitions": count, "repetition_index": index}
                if self.draw.random() < 0.1:
                    more["label"] = self.draw.choice(["a label", "größe"])
                if "failed" in self.kind and self.draw.random() < 0.2:
                    more.update(self.draw.choice([{"error_occurred": True, "error_message": "no"},
                                                  {"skipped": True, "skip_message": "not today"}]))
                    repetitions.append(self.entry(name, place, unit, 0.0, 0.0, **more))
                    continue
                repetitions.append(self.entry(name, place, unit, self.time(centre), self.time(centre), **more))
            figures = self.aggregates(name, place, unit, repetitions) if count > 1 else []
            entries += figures if "aggregates_only" in self.kind else repetitions + figures
            if "coefficients" in self.kind:
                entries += self.coefficients(name, place, unit)
        if "without_places" not in self.kind and self.draw.random() < 0.3:
            self.draw.shuffle(entries)
        return {"context": {"num_cpus": 2, "json_schema_version": 1}, "benchmarks": entries}

    def files(self):
        cases = {}
        for index, name in enumerate(self.names()):
            unit = self.draw.choice(["ns", "ns", "us", "ms", "s"])
            cases[(index // 3, index % 3)] = (name, unit, self.centre(), self.repetitions())
        return self.side(cases, False), self.side(cases, True)

    def arguments(self, files):
        words = []
        if self.draw.random() < 0.5:
            words.append("--no-color")
        words += self.draw.choice([[], [], [], ["-a"], ["--no-utest"], ["--alpha=0.2"], ["--alpha", "0.001"]])
        names = sorted({entry["run_name"] for entry in files[0]["benchmarks"]}) or ["x"]
        one, other = (self.draw.choice(names).split("/")[0].split("<")[0] for _ in "ab")
        mode = self.draw.choice(["benchmarks"] * 6 + ["filters"] * 2 + ["benchmarksfiltered"] * 2)
        if mode == "filters":
            one, other = self.draw.choice([(one, other), (one, one), ("BM_.o", "BM_m"), (f"({one})", other), (f"{one}.*", f"{other}.*"), ("nope", other), ("_[a-z]+", "x?/"), ("", other)])
            return words + [mode, "a.json", one, other]
        if mode == "benchmarksfiltered":
            one, other = self.draw.choice([(one, one), (one, one), (one, other), ("^", "^"), (".*", ".*"), ("\\w", "o")])
            return words + [mode, "a.json", one, "b.json", other]
        passed = self.draw.choice([[]] * 10 + [["--benchmark_filter=" + one], ["--benchmark_min_time=1s", "x"], ["--"]])
        return words + [mode, "a.json", "b.json"] + passed


def pairs(count, seed):
    """Yields `count` pairs: two texts and the arguments that compare them as a.json and
    b.json."""
    draw = random.Random(seed)
    for index in range(count):
        maker = Maker(draw, KINDS[index % len(KINDS)])
        files = maker.files()
        texts = [json.dumps(file, ensure_ascii=draw.random() < 0.5, indent=draw.choice([None, 2])) for file in files]
        yield texts, maker.arguments(files)
