"""A MIMIC-IV of a few invented patients, small enough to work out every number by hand.

Times are hours after a stay's ICU admission.
"""

from __future__ import annotations

import csv
import gzip
from datetime import datetime, timedelta
from pathlib import Path

COLUMNS = {
    "hosp/patients": "subject_id gender anchor_age anchor_year anchor_year_group dod",
    "hosp/admissions": "subject_id hadm_id admittime dischtime hospital_expire_flag",
    "hosp/diagnoses_icd": "subject_id hadm_id seq_num icd_code icd_version",
    "hosp/prescriptions": "subject_id hadm_id starttime stoptime drug_type drug route",
    "hosp/microbiologyevents": "subject_id hadm_id micro_specimen_id chartdate charttime "
    "spec_type_desc org_itemid org_name",
    "hosp/labevents": "subject_id hadm_id specimen_id itemid charttime value valuenum",
    "icu/icustays": "subject_id hadm_id stay_id intime outtime los",
    "icu/chartevents": "subject_id hadm_id stay_id caregiver_id charttime storetime itemid value "
    "valuenum",
    "icu/inputevents": "subject_id hadm_id stay_id starttime endtime itemid amount amountuom rate "
    "rateuom patientweight",
    "icu/outputevents": "subject_id hadm_id stay_id charttime itemid value",
}


class Tiny:
    """Rows of every table, and ways to add to them."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict]] = {name: [] for name in COLUMNS}
        self._specimens = 0

    def add(self, table: str, **values) -> None:
        self.rows[table].append(values)

    def stay(self, number: int, intime: datetime, hours: float, *, age=60, died=False) -> Stay:
        return Stay(self, number, intime, hours, age, died)

    def specimen(self) -> int:
        self._specimens += 1
        return self._specimens

    def write(self, folder: Path, *, ending: str = ".csv.gz") -> Path:
        for name, columns in COLUMNS.items():
            path = folder / f"{name}{'.csv' if ending == '.parquet' else ending}"
            path.parent.mkdir(parents=True, exist_ok=True)
            opener = gzip.open if ending == ".csv.gz" else open
            with opener(path, "wt", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, columns.split())
                writer.writeheader()
                writer.writerows(self.rows[name])
            if ending == ".parquet":
                import duckdb

                duckdb.execute(
                    f"COPY (SELECT * FROM read_csv('{path}', all_varchar = true)) "
                    f"TO '{path.with_suffix('.parquet')}'"
                )
                path.unlink()
        return folder


class Stay:
    """One patient with one stay; patient n has admission 10 n and stay 100 n."""

    def __init__(
        self, tiny: Tiny, number: int, intime: datetime, hours: float, age: int, died: bool
    ) -> None:
        self.tiny, self.number, self.intime = tiny, number, intime
        self.who = {"subject_id": number, "hadm_id": 10 * number}
        self.where = {**self.who, "stay_id": 100 * number}
        tiny.add(
            "hosp/patients",
            subject_id=number,
            gender="F",
            anchor_age=age,
            anchor_year=intime.year,
            dod=self.at(hours + 24) if died else "",
        )
        tiny.add(
            "hosp/admissions", **self.who, admittime=self.at(-48), hospital_expire_flag=int(died)
        )
        tiny.add("icu/icustays", **self.where, intime=self.at(0), outtime=self.at(hours))

    def at(self, hours: float) -> str:
        return (self.intime + timedelta(hours=hours)).strftime("%Y-%m-%d %H:%M:%S")

    def chart(self, item: int, hours: float, value) -> None:
        number = "" if isinstance(value, str) else value
        self.tiny.add(
            "icu/chartevents",
            **self.where,
            charttime=self.at(hours),
            storetime=self.at(hours),
            itemid=item,
            value=value,
            valuenum=number,
        )

    def lab(self, hours: float, **values) -> None:
        """Values of one specimen, by item id: `lab(3, i50912=2.5)`."""
        specimen = self.tiny.specimen()
        for item, value in values.items():
            self.tiny.add(
                "hosp/labevents",
                **self.who,
                specimen_id=specimen,
                itemid=item[1:],
                charttime=self.at(hours),
                value=value,
                valuenum="" if isinstance(value, str) else value,
            )

    def give(self, item: int, begin: float, end: float, *, amount=1.0, unit="ml", **rate) -> None:
        self.tiny.add(
            "icu/inputevents",
            **self.where,
            starttime=self.at(begin),
            endtime=self.at(end),
            itemid=item,
            amount=amount,
            amountuom=unit,
            patientweight=80,
            **rate,
        )

    def antibiotic(self, hours: float, drug: str = "Vancomycin") -> None:
        self.tiny.add(
            "hosp/prescriptions",
            **self.who,
            starttime=self.at(hours),
            stoptime=self.at(hours + 24),
            drug_type="MAIN",
            drug=drug,
            route="IV",
        )

    def culture(self, hours: float, *, only_day: bool = False) -> None:
        self.tiny.add(
            "hosp/microbiologyevents",
            **self.who,
            micro_specimen_id=self.tiny.specimen(),
            chartdate=self.at(hours)[:10] + " 00:00:00",
            charttime="" if only_day else self.at(hours),
            spec_type_desc="BLOOD CULTURE",
        )

    def diagnosis(self, code: str, version: int = 9) -> None:
        self.tiny.add("hosp/diagnoses_icd", **self.who, icd_code=code, icd_version=version)


def add_first(tiny: Tiny, number: int = 1, *, died: bool = False) -> None:
    """Culture, then antibiotic: onset at 10. Every part of SOFA but urine."""
    stay = tiny.stay(number, datetime(2150, 1, 5), 60, died=died)
    for hours, rate in ((0, 80), (7, 100), (9, 110), (59, 90)):
        stay.chart(220045, hours, rate)
    stay.culture(10)
    stay.antibiotic(12)
    stay.lab(8.5, i50912=2.5)  # renal 2
    stay.lab(9.5, i51265=90, i50885=1.3)  # coagulation 2, liver 1
    stay.chart(220181, 11, 65)  # cardiovascular 1
    for item, points in ((223901, 6), (223900, 3), (220739, 4)):
        stay.chart(item, 12, points)  # CNS 1
    stay.chart(223835, 12, 0.5)
    for hours in (14, 15):
        stay.chart(223834, hours, 10)
        stay.chart(226732, hours, "Endotracheal tube")
    stay.lab(14.5, i52033="ART.", i50821=80)  # 80 / 50% on a ventilator: respiration 3
    stay.give(221906, 13, 15.5, unit="mg", rate=0.05, rateuom="mcg/kg/min")  # cardiovascular 3
    stay.give(222315, 14, 15, unit="units", rate=0.04, rateuom="units/min")  # 2.4 units/h: 0.1
    stay.give(221749, 20, 21, unit="mg", rate=80, rateuom="mcg/min")  # 1 per kg: 0.1
    stay.give(225158, 12, 16, amount=1000)
    stay.give(220862, 6, 6 + 1 / 60, amount=100)  # 25% albumin counts 5 times
    stay.give(225823, 22, 23, amount=200)  # half-normal saline counts half
    stay.give(225158, 30, 31, amount=7, unit="mg")  # not a volume
    stay.chart(226512, 1, 80)
    for code in ("4280", "25000", "25040"):
        stay.diagnosis(code)


def add_second(tiny: Tiny) -> None:
    """Antibiotic, then culture: onset at 5. Little urine; a tube hides the coma scale."""
    stay = tiny.stay(2, datetime(2151, 3, 1, 0, 30), 36)
    for hours in (0, 35):
        stay.chart(220045, hours, 90)
    stay.antibiotic(5)
    stay.culture(20)
    for hour in range(1, 25):
        stay.tiny.add(
            "icu/outputevents", **stay.where, charttime=stay.at(hour), itemid=226559, value=10
        )
    stay.chart(223901, 10, 1)
    stay.chart(220739, 10, 1)
    stay.chart(223900, 10, "No Response-ETT")
    stay.give(225159, 6, 7, amount=400)


def add_third(tiny: Tiny) -> None:
    """A culture of which only the day is known, 20 hours before admission; dopamine."""
    stay = tiny.stay(3, datetime(2152, 5, 2, 20), 48, age=45)
    stay.chart(220045, 1 / 6, 70)
    stay.chart(220045, 47, 70)
    stay.culture(-10, only_day=True)
    stay.antibiotic(14)
    stay.give(221662, 1, 3, unit="mg", rate=6, rateuom="mcg/kg/min")


def add_healthy(tiny: Tiny) -> None:
    """Two who are left out: no antibiotic of effect on the body; no organ failure."""
    for number in (4, 5):
        stay = tiny.stay(number, datetime(2153, 1, 5), 24)
        stay.chart(220045, 0, 70)
        stay.chart(220045, 20, 70)
        stay.culture(4)
        stay.antibiotic(5, "Bacitracin" if number == 4 else "Vancomycin")


def three_patients() -> Tiny:
    tiny = Tiny()
    add_first(tiny)
    add_second(tiny)
    add_third(tiny)
    add_healthy(tiny)
    return tiny
