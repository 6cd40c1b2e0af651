"""Asks Spark itself which functions it has and which types it gives to many expressions, and writes it down.

The planner's typing is tested against these answers, and never runs Spark. Run it by hand after a change of the Spark
version or of the lists below, with pyspark (the `runtime` extra) and a Java installed, from the root of the repository:

    python tests/planning/sql/make_spark_types.py

Writes `spark_types.json` beside itself and `spark_functions.txt` into `core/holdfast/planning/sql`. Uses Spark's own
defaults (ANSI mode) with the session's time zone set to UTC. Stops at the first expression Spark refuses.
"""

# ruff: noqa: SLF001, T201 - a script for the terminal that asks Spark through its bridge to Java
# mypy: ignore-errors

import json
import re
from itertools import combinations_with_replacement
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import CapturedException

HERE = Path(__file__).parent
FUNCTIONS = HERE.parents[2] / "core" / "holdfast" / "planning" / "sql" / "spark_functions.txt"

SCHEMA = (
    "flag BOOLEAN, t TINYINT, sh SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, m DECIMAL(10,2), w DECIMAL(38,10), "
    "n DECIMAL(5,0), s STRING, s2 STRING, bin BINARY, day DATE, ts TIMESTAMP, tn TIMESTAMP_NTZ, "
    "span INTERVAL DAY TO SECOND, months INTERVAL YEAR TO MONTH, ints ARRAY<INT>, longs ARRAY<BIGINT>, "
    "words ARRAY<STRING>, grid ARRAY<ARRAY<INT>>, p STRUCT<x: INT, y: STRUCT<z: DOUBLE>, `odd name`: STRING>, "
    "people ARRAY<STRUCT<name: STRING, age: INT>>, counts MAP<STRING, BIGINT>, by_id MAP<INT, STRUCT<v: DOUBLE>>, "
    "lcase STRING COLLATE UTF8_LCASE"
)

NUMBERS = ("t", "sh", "i", "l", "f", "d", "m", "w", "n")

PER_ROW = """
i | p | p.x | p.y.z | P.X | p.`odd name` | people.name | people[0].age | counts['a'] | counts.a | by_id[1].v
ints[0] | grid[0][1] | element_at(ints, 1) | element_at(counts, 'a') | try_element_at(ints, 1) | get(ints, 0) | 1
2147483647 | 2147483648 | 9223372036854775808 | 1.5 | 0.05 | 1.50 | .5 | 5. | 1e3 | 1.5e3 | 1L | 2S | 3Y | 1.5D
1.5F | 1.5BD | -1 | -1.5 | 'x' | "x" | 'a' 'b' | r'a' | X'1F' | NULL | true | FALSE | -i | +i | -m | ~i | -span
i + 1 | i + 1L | i * 1.5 | d * 1.5 | m + 1 | m * 2 | m / 3 | m % 7 | 1 + m | m + 1000 | m + -1 | n - 2L | m % 2L
m + CAST(2 AS BIGINT) | (1) + m | m + -(1) | m - 1.25 | i / 2 | l / i | i % 2 | i DIV 2 | l DIV 2 | m DIV 2 | i|3
i|l | 1 / 2 | 1.0 / 3 | t + 1 | sh * 2 | f * 2 | f + 1.5 | l * 1.5 | n * n | (i + 1) * 2 | i & 3 | l | 3 | i ^ l
t & sh | i << 1 | l >> 2 | i = 1 | i == l | i <> 1 | i != 1 | i < d | i <= 1 | i > m | i >= 1 | i <=> l | s = 'x'
s LIKE 'a%' | s NOT LIKE 'a%' | s ILIKE 'A%' | s RLIKE 'a+' | s REGEXP 'a' | s LIKE ANY ('a%', 'b%')
s LIKE ALL ('a%', 'b%') | s LIKE 'a!%' ESCAPE '!' | i IN (1, 2) | i NOT IN (1, 2) | i BETWEEN 1 AND 2
i NOT BETWEEN 1 AND 2 | s IS NULL | s IS NOT NULL | flag IS TRUE | flag IS NOT FALSE | flag IS UNKNOWN
i IS DISTINCT FROM l | i IS NOT DISTINCT FROM l | NOT flag | !flag | flag AND i > 1 | flag OR s = 'x' | (flag)
equal_null(i, 1) | isnull(s) | isnotnull(s) | isnan(d) | CASE WHEN flag THEN 1 ELSE 2 END
CASE WHEN flag THEN i WHEN i > 1 THEN l END | CASE i WHEN 1 THEN 'a' ELSE 'b' END | CASE WHEN flag THEN m ELSE 0 END
CASE WHEN flag THEN NULL ELSE s END | if(flag, i, l) | if(flag, 'a', NULL) | if(flag, day, ts) | coalesce(i, l)
coalesce(s, 'x') | coalesce(NULL, i) | coalesce(m, 0) | coalesce(m, 1.25) | coalesce(d, 0) | coalesce(f, i)
coalesce(f, 1.5) | coalesce(day, ts) | coalesce(tn, ts) | coalesce(day, tn) | coalesce(ints, longs)
coalesce(span, INTERVAL 1 DAY) | nvl(i, 0) | ifnull(s, '') | nvl2(s, 1, 2L) | nullif(i, 0) | greatest(i, l)
least(day, ts) | greatest(i, 1.5) | greatest(s, 'a') | CAST(s AS INT) | CAST(s AS BIGINT)
CAST(s AS DECIMAL(12, 3)) | CAST(s AS DECIMAL) | CAST(i AS STRING) | CAST(s AS DATE) | CAST(s AS TIMESTAMP)
CAST(s AS TIMESTAMP_NTZ) | CAST(s AS BINARY) | CAST(i AS BOOLEAN) | CAST(s AS LONG) | s::DOUBLE | TRY_CAST(s AS INT)
CAST(ints AS ARRAY<BIGINT>) | CAST(p.y AS STRUCT<z: FLOAT>) | CAST(counts AS MAP<STRING, INT>) | CAST(s AS TINYINT)
CAST(s AS SMALLINT) | CAST(s AS FLOAT) | CAST(s AS INTERVAL DAY TO SECOND) | CAST(s AS SHORT) | CAST(s AS BYTE)
CAST(s AS INTEGER) | CAST(s AS REAL) | CAST(s AS NUMERIC(7, 1)) | CAST(s AS TIMESTAMP_LTZ) | CAST(s AS VARCHAR(5))
CAST(s AS CHAR(5)) | int(s) | bigint(s) | double(s) | float(s) | string(i) | date(s) | timestamp(s) | boolean(s)
binary(s) | tinyint(s) | smallint(s) | decimal(s) | DATE '2026-01-31' | TIMESTAMP '2026-01-31 10:00:00'
TIMESTAMP_NTZ '2026-01-31 10:00:00' | INTERVAL 1 DAY | INTERVAL '1' DAY | INTERVAL 2 WEEKS
INTERVAL '1 02:03:04' DAY TO SECOND | INTERVAL '1-2' YEAR TO MONTH | INTERVAL 3 HOURS | INTERVAL '10 minutes'
INTERVAL 1 DAY 2 HOURS | INTERVAL 5 SECONDS | INTERVAL 1 MONTH | INTERVAL 1 YEAR | INTERVAL 10 MILLISECONDS
INTERVAL '1.5' SECOND | INTERVAL 90 MINUTE | day + 1 | day + i | day - 1 | day + INTERVAL 1 DAY
day + INTERVAL 1 HOUR | day + INTERVAL 1 MONTH | day - INTERVAL 1 YEAR | day + span | day + months | 1 + day
INTERVAL 1 DAY + day | day - day | ts + INTERVAL 1 DAY | ts - INTERVAL 10 MINUTES | ts + INTERVAL 1 MONTH
tn + INTERVAL 1 DAY | tn - INTERVAL 1 YEAR | ts - ts | tn - tn | ts - day | ts + span | ts - span | ts + months
INTERVAL 1 DAY + ts | span + span | span - INTERVAL 1 DAY | months + INTERVAL 1 YEAR | span * 2 | 2 * span
span / 2 | months * 2 | months / 2 | INTERVAL 1 HOUR * i | ts + INTERVAL 1 DAY * i | ts > ts - INTERVAL 1 HOUR
year(ts) | month(ts) | day(ts) | dayofmonth(day) | dayofweek(day) | dayofyear(day) | weekofyear(day) | weekday(day)
quarter(day) | hour(ts) | minute(ts) | second(ts) | dayname(day) | monthname(day) | date_trunc('hour', ts)
date_trunc('day', day) | date_trunc('day', tn) | trunc(day, 'month') | to_date(s) | to_date(s, 'yyyy')
to_timestamp(s) | to_timestamp(s, 'yyyy') | to_timestamp_ltz(s) | to_timestamp_ntz(s) | try_to_timestamp(s)
try_to_date(s) | date_format(ts, 'yyyy') | from_unixtime(l) | unix_timestamp(ts) | unix_timestamp(s, 'yyyy')
to_unix_timestamp(ts) | unix_seconds(ts) | unix_millis(ts) | unix_micros(ts) | unix_date(day) | timestamp_seconds(l)
timestamp_seconds(d) | timestamp_millis(l) | timestamp_micros(l) | date_add(day, 1) | dateadd(day, 1)
date_sub(day, 1) | datediff(day, day) | date_diff(day, ts) | timestampdiff(HOUR, ts, ts) | datediff(HOUR, ts, ts)
timestampadd(HOUR, 1, ts) | dateadd(DAY, 1, ts) | add_months(day, 1) | months_between(ts, ts) | last_day(day)
next_day(day, 'MO') | make_date(2026, 1, 31) | make_timestamp(2026, 1, 31, 1, 2, 3)
make_timestamp_ntz(2026, 1, 31, 1, 2, 3) | make_interval(1) | make_dt_interval(1) | make_ym_interval(1)
date_from_unix_date(i) | from_utc_timestamp(ts, 'UTC') | to_utc_timestamp(ts, 'UTC') | extract(YEAR FROM ts)
extract(SECOND FROM ts) | extract(HOUR FROM ts) | extract(DAY FROM span) | date_part('month', day)
date_part('second', ts) | datepart('doy', day) | convert_timezone('UTC', tn) | upper(s) | lower(s) | ucase(s)
lcase(s) | trim(s) | ltrim(s) | rtrim(s) | btrim(s) | trim(BOTH 'x' FROM s) | trim(LEADING FROM s) | length(s)
length(bin) | len(s) | char_length(s) | character_length(s) | octet_length(s) | bit_length(s) | ascii(s) | chr(65)
char(65) | concat(s, s2) | concat(s, i) | concat(s, day) | concat(bin, bin) | concat(ints, ints)
concat(ints, longs) | concat(i, l) | s || s2 | s || i | ints || ints | concat_ws('-', s, s2) | concat_ws('-', words)
substring(s, 1, 2) | substr(s, 1) | substring(s FROM 1 FOR 2) | substring(bin, 1, 2) | substring(i, 1, 1)
left(s, 2) | right(s, 2) | left(bin, 2) | replace(s, 'a', 'b') | translate(s, 'a', 'b')
regexp_replace(s, 'a', 'b') | regexp_extract(s, 'a', 0) | regexp_extract_all(s, 'a', 0) | regexp_count(s, 'a')
regexp_instr(s, 'a') | regexp_substr(s, 'a') | regexp_like(s, 'a') | rlike(s, 'a') | regexp(s, 'a') | like(s, 'a')
ilike(s, 'a') | split(s, ',') | split(s, ',', 2) | split_part(s, ',', 1) | substring_index(s, ',', 1)
instr(s, 'a') | locate('a', s) | position('a' IN s) | position('a', s) | lpad(s, 5) | rpad(s, 5, 'x') | lpad(bin, 5)
repeat(s, 2) | reverse(s) | reverse(ints) | initcap(s) | soundex(s) | levenshtein(s, s2) | space(2)
format_number(d, 2) | format_string('%s', s) | printf('%d', i) | startswith(s, 'a') | endswith(s, 'a')
contains(s, 'a') | find_in_set('a', s) | elt(1, s, s2) | overlay(s PLACING 'x' FROM 1) | overlay(s, 'x', 1)
base64(bin) | unbase64(s) | encode(s, 'UTF-8') | decode(bin, 'UTF-8') | decode(i, 1, 'a', 'b') | hex(i) | unhex(s)
bin(l) | conv(s, 10, 16) | md5(s) | sha(s) | sha1(s) | sha2(s, 256) | crc32(s) | hash(s, i) | xxhash64(s, i)
mask(s) | quote(s) | luhn_check(s) | to_char(i, '999') | to_varchar(i, '999') | to_number(s, '999') | to_binary(s)
url_encode(s) | url_decode(s) | parse_url(s, 'HOST') | get_json_object(s, '$.a') | to_json(p)
from_json(s, 'a INT, b STRING') | from_json(s, 'ARRAY<INT>') | json_array_length(s) | json_object_keys(s)
schema_of_json('[1]') | typeof(i) | sentences(s) | abs(i) | abs(d) | abs(m) | sign(i) | signum(d) | sqrt(i)
cbrt(d) | exp(d) | expm1(d) | ln(d) | log(d) | log(2, d) | log10(d) | log2(d) | log1p(d) | pow(i, 2) | power(d, 2)
round(d) | round(d, 2) | round(i) | round(f) | round(m) | round(m, 1) | round(m, 5) | round(l, 2) | bround(d)
bround(m, 1) | rint(d) | ceil(d) | ceil(i) | ceil(m) | ceiling(l) | floor(d) | floor(m) | floor(f) | ceil(d, 1)
floor(w) | pmod(i, 3) | mod(i, 3) | mod(m, 3) | negative(i) | positive(d) | factorial(i) | hypot(d, d) | sin(d)
cos(d) | tan(d) | asin(d) | acos(d) | atan(d) | atan2(d, d) | sinh(d) | cosh(d) | tanh(d) | asinh(d) | acosh(d)
atanh(d) | sec(d) | csc(d) | cot(d) | degrees(d) | radians(d) | pi() | e() | nanvl(d, 1.0)
width_bucket(d, 0, 1, 5) | try_add(i, 1) | try_divide(i, 2) | bit_count(i) | bit_get(i, 1) | getbit(i, 1)
shiftleft(i, 1) | shiftright(l, 1) | shiftrightunsigned(i, 1) | zeroifnull(i) | nullifzero(i) | array(1, 2)
array(i, l) | array('a') | array(1, 1.5) | size(ints) | cardinality(counts) | array_size(ints)
array_contains(ints, 1) | array_position(ints, 1) | array_distinct(ints) | array_union(ints, ints)
array_except(ints, ints) | array_intersect(words, words) | array_append(ints, 1) | array_prepend(ints, 1)
array_insert(ints, 1, 1) | array_remove(ints, 1) | array_compact(ints) | array_join(words, ',') | array_max(ints)
array_min(words) | array_repeat(s, 2) | array_sort(ints) | sort_array(words) | sort_array(ints, false)
slice(ints, 1, 2) | flatten(grid) | sequence(1, 5) | sequence(i, l) | sequence(day, day)
arrays_overlap(ints, ints) | arrays_zip(ints, words) | map('a', 1) | map('a', i, 'b', l) | map_keys(counts)
map_values(counts) | map_entries(counts) | map_concat(counts, counts) | map_contains_key(counts, 'a')
map_from_arrays(words, ints) | map_from_entries(people) | str_to_map(s, ',', ':') | struct(i, s)
struct(i AS a, s AS b) | struct(I) | struct(p.x) | struct(1, 'x') | named_struct('a', i, 'b', s) | (i, s)
named_struct('odd name', i) | struct(p.x, l).x | named_struct('a', named_struct('b', 1)).a.b
transform(ints, x -> x + 1) | transform(ints, (x, n) -> x * n) | transform(words, x -> length(x))
transform(people, x -> x.name) | transform(people, X -> struct(x.age AS a))
transform(grid, r -> transform(r, x -> x + l)) | filter(ints, x -> x > 1) | filter(ints, (x, n) -> n > 0)
exists(ints, x -> x > 1) | forall(ints, x -> x > 1) | aggregate(ints, 0, (a, x) -> a + x)
aggregate(longs, 0L, (a, x) -> a + x) | reduce(ints, 0, (a, x) -> a + x, a -> a * 2.0D)
aggregate(ints, 0, (a, x) -> a + x, a -> CAST(a AS STRING)) | zip_with(ints, longs, (a, b) -> a + b)
map_filter(counts, (k, v) -> v > 1) | transform_keys(counts, (k, v) -> length(k))
transform_values(counts, (k, v) -> v + 1) | map_zip_with(counts, counts, (k, a, b) -> coalesce(a, b))
array_sort(ints, (a, b) -> a - b) | array_sort(people, (a, b) -> a.age - b.age) | upper(lcase) | lcase
concat(lcase, 'x') | substring(lcase, 1, 2) | length(lcase) | coalesce(lcase, lcase) | split(lcase, ',')
reverse(i) | abs(s) | array_append(ints, l) | array_union(ints, longs) | array_insert(ints, 1, l)
array_remove(ints, l) | array_except(ints, longs) | nullif(i, 1.5) | left(i, 2) | concat(i) | concat(s)
sequence(t, i) | map_concat(counts, map('a', 1)) | array(1, NULL) | array(NULL) | array() | coalesce(NULL, NULL)
map() | abs(span) | CASE WHEN flag THEN NULL END | coalesce(p.y, named_struct('z', 1))
coalesce(p.y, named_struct('Z', 1)) | s || NULL | coalesce(span, INTERVAL 1 HOUR)
coalesce(INTERVAL 1 DAY, INTERVAL 1 HOUR) | struct(i + 1, ints[0], people[0].age) | struct(people.name)
transform(people, x -> struct(x.age)) | transform(ints, x -> struct(x)) | 100BD | 0.050BD | 1.5E1BD | greatest(d, m)
greatest(t, sh) | array(i, m) | array(day, ts) | if(flag, f, m) | coalesce(f, l) | CASE WHEN flag THEN 'a' END
coalesce(i, NULL, l) | least(m, n, w) | coalesce(m, 10000000000) | m + 10000000000 | m * 0.5 | 2 * m | 10 / m
i + 0.5 | l + 0.5 | i * 1.10 | t * 1.0 | m + f | m * d | day + t | day - sh | tn - day | tn - ts | day - ts
ts - tn | INTERVAL 1 DAY - INTERVAL 1 HOUR | INTERVAL -1 DAY | INTERVAL '-1' DAY | -INTERVAL 1 DAY
INTERVAL 1 HOUR + INTERVAL 1 MINUTE | INTERVAL 1 DAY * 1.5 | i * 1L | repeat(bin, 2) | right(bin, 2) | upper(i)
length(i) | trim(i) | replace(i, 1, 2) | split(i, ',') | round(t) | round(sh, 1) | round(m, -1) | ceil(t) | floor(n)
ceil(f) | ceil(n) | round(n) | round(n, 1) | bround(n) | transform(ints, (x, n) -> (n, x)) | pow(m, 2) | sign(m)
sqrt(m) | abs(t) | abs(w) | -t | -w | ~l | ~t | t << 1 | sh >> 1 | t | sh | m | shiftleft(t, 1) | hash(p)
size(words) | element_at(people, 1).name | element_at(by_id, 1).v | date_trunc('hour', s) | date_trunc('hour', tn)
trunc(ts, 'year') | last_day(ts) | year(s) | year(tn) | hour(tn) | date_add(s, 1) | date_add(ts, 1) | to_date(ts)
to_timestamp(day) | to_timestamp(tn) | unix_timestamp(day) | from_utc_timestamp(s, 'UTC') | datediff(s, s)
make_timestamp(2026, 1, 31, 1, 2, 3, 'UTC') | extract(MINUTES FROM tn) | extract(WEEK FROM day)
extract(SECOND FROM tn) | date_part('SECONDS', ts) | concat(s, ts) | concat(s, d) | concat(s, m) | concat(flag, s)
d || i | concat(s, bin) | concat_ws(',', words, s) | aggregate(ints, 0L, (a, x) -> a + x)
aggregate(ints, 0, (a, x) -> a + x, a -> a / 2) | exists(people, x -> x.age > i)
transform(ints, x -> CASE WHEN x > 1 THEN 'a' ELSE 'b' END) | filter(people, x -> x.name LIKE 'a%')
flatten(transform(grid, x -> x)) | transform_values(by_id, (k, v) -> v.v * 2) | map_filter(by_id, (k, v) -> k > 1)
map_entries(by_id) | map_values(by_id)[0].v | map_from_entries(array(struct(1, 'a')))
zip_with(words, ints, (a, b) -> concat(a, b)) | sort_array(people) | array_max(people).name
from_json(s, 'STRUCT<a: INT>') | from_json(s, 'a INT').a | from_json(s, 'm MAP<STRING, INT>') | nvl2(s, m, d)
nvl(d, 1) | ifnull(m, n) | nvl(ts, day) | if(flag, 1, 2.5) | if(flag, NULL, day) | nullif(s, 'x')
coalesce(words, array('a')) | coalesce(counts, map('a', 1L)) | s IN ('a', 'b') AND i BETWEEN 1 AND 2 OR NOT flag
(i + l) * d | CAST(i + l AS STRING) | (p).x | (p).y.z | ((i)) | counts['a'] + 1 | parse_json(s)
variant_get(parse_json(s), '$.a', 'int')
"""

PER_GROUP = """
count(*) | count(1) | count(s) | count(DISTINCT s) | count(DISTINCT s, i) | count_if(flag) | sum(i) | sum(t)
sum(l) | sum(f) | sum(d) | sum(m) | sum(w) | sum(span) | sum(DISTINCT i) | sum(i * 2) | sum(m * i) | sum(1)
sum(1.5) | sum(i) FILTER (WHERE i > 1) | count(*) FILTER (WHERE flag) | avg(i) | avg(d) | avg(m) | avg(w) | avg(f)
mean(l) | try_sum(i) | try_avg(i) | min(i) | max(m) | min(s) | max(ts) | min(day) | max(p) | first(s)
first(s, true) | first(s) IGNORE NULLS | last(i) | first_value(i) | last_value(i) | any_value(s)
max_by(s, ts, 3) | max_by(s, ts)
min_by(p, ts) | mode(s) | collect_list(s) | collect_set(i) | array_agg(p) | collect_list(struct(i, s)) | stddev(d)
std(d) | stddev_pop(i) | stddev_samp(i) | variance(i) | var_pop(d) | var_samp(d) | skewness(d) | kurtosis(d)
corr(d, i) | covar_pop(d, i) | covar_samp(d, i) | regr_count(d, d) | regr_slope(d, d) | regr_intercept(d, d)
regr_r2(d, d) | regr_avgx(d, i) | regr_avgx(d, m) | regr_avgy(m, d) | regr_avgy(n, 1e2) | regr_avgy(d, i)
regr_sxx(d, d) | regr_sxy(d, d) | regr_syy(d, d) | median(i) | median(m) | percentile(i, 0.5)
percentile(i, array(0.5, 0.9)) | percentile_approx(i, 0.5) | approx_percentile(d, array(0.5, 0.9))
approx_percentile(ts, 0.5) | percentile_cont(0.5) WITHIN GROUP (ORDER BY i) | approx_count_distinct(s)
bool_and(flag) | bool_or(flag) | every(flag) | any(flag) | some(flag) | bit_and(i) | bit_or(l) | bit_xor(i)
listagg(s, ',') | string_agg(s, ',') | listagg(s, ',') WITHIN GROUP (ORDER BY i) | sum(i) / count(*)
sum(m) / count(*) | max(ts) - min(ts) | max(i) - min(i) | listagg(bin) | sum(n) | avg(n) | sum(sh) | avg(t)
min(flag) | max(words) | bit_and(t) | bit_xor(l) | median(d) | mode(p) | max(span) | sum(months) | avg(span)
percentile(m, 0.5) | percentile(d, array(0.5)) | percentile_approx(m, 0.5, 100) | median(f)
percentile_approx(i, array(0.5), 100) | count(i, s) | collect_set(day) | collect_list(people) | any_value(m)
max_by(m, i) | first(p).x | approx_percentile(day, 0.5) | stddev(m) | corr(m, i) | sum(i + 0.5)
sum(if(flag, 1, 0)) | sum(CASE WHEN flag THEN m ELSE 0 END) | avg(i) * 100 | sum(l) / 1000 | sum(m) + 1
max(ts) + INTERVAL 1 DAY | max(day) - min(day) | transform(collect_list(i), x -> x + 1)
array_join(collect_list(s), ',') | min(i) + max(l) | count(*) > 1 AND max(flag) | sum(length(s)) | upper(max(s))
avg(length(s)) | round(avg(d), 2) | coalesce(sum(i), 0) | CAST(sum(i) AS INT) | max(i) > 3 | size(collect_set(s))
max(struct(ts, s)).s | if(count(*) > 1, 'many', 'one') | CASE WHEN sum(i) > 1 THEN 1 ELSE 0 END | count(*) * 2
histogram_numeric(d, 5)
"""

IN_THE_GRAMMAR = ("timediff", "timestampadd", "timestampdiff", "try_cast")
"""Called like functions, but known to Spark's parser alone."""

SCHEMAS = r"""
a INT
ad_id STRING, campaign STRING, ts TIMESTAMP
a INT NOT NULL, b STRING COMMENT 'it''s', c DATE NOT NULL COMMENT "x"
`a b` INT, `a``b` INT, _x INT, 1a INT, select INT, table INT, comment STRING COMMENT 'c'
a DECIMAL, b DECIMAL(5), c DECIMAL(10, 2), d DEC(5), e NUMERIC(5,1), f DECIMAL(0)
a BYTE, b SHORT, c LONG, d REAL, e INTEGER, f TINYINT, g SMALLINT, h BIGINT, i FLOAT, j DOUBLE, k BOOLEAN, l BINARY
a CHAR(3), b VARCHAR(5), c CHARACTER(3), d STRING COLLATE UTF8_LCASE
a TIMESTAMP_LTZ, b TIMESTAMP_NTZ, c TIMESTAMP WITHOUT TIME ZONE, d DATE, e VOID, f VARIANT, g TIME, h TIME(3)
a ARRAY<INT>, b MAP<STRING,INT>, c STRUCT<>, d STRUCT<x INT>, e STRUCT<x: INT, y: STRING NOT NULL, `z z`: INT>
a STRUCT<x: ARRAY<MAP<STRING, ARRAY<INT>>>>, b ARRAY < INT >, c STRUCT<x : INT>
a INTERVAL, b INTERVAL DAY, c INTERVAL DAY TO SECOND, d INTERVAL YEAR TO MONTH, interval INTERVAL DAY
a INT -- hi
a INT /* c */, b INT
A int, B string
a INT COMMENT 'x' 'y'
a
a STRNG
a INT,,b INT
a INT,
,a INT
a: INT
a : INT
a INT NULL
a INT b
a-b INT
a.b INT
1 INT
1e3 INT
é INT
a DECIMAL(39,2)
a DECIMAL(5,7)
a DECIMAL(10,-2)
a DECIMAL()
a CHAR
a VARCHAR
a INT(3)
a STRING(3)
a BIGINT UNSIGNED
a ARRAY
a ARRAY<>
a ARRAY<INT
a ARRAY<INT>>
a ARRAY<INT NOT NULL>
a MAP<STRING>
a STRUCT
a STRUCT<x: INT,>
a STRUCT<INT>
a INTERVAL SECOND TO DAY
a INTERVAL WEEK
a TEXT
a BOOL
a DATETIME
a NULL
a INT DEFAULT 3
a INT COMMENT
a INT COMMENT x
a INT COMMENT 'x' NOT NULL
a 'INT'
'a' INT
"a" INT
a `INT`
a double precision
INT
ARRAY<INT>
STRUCT<a: INT>
SELECT 1
a INT; DROP TABLE x
a INT;
(a INT)
a INT COLLATE UTF8_LCASE
"""


def items(text: str) -> list[str]:
    """The expressions of a list: one per line, or several with ` | ` between."""
    return [item.strip() for line in text.strip().splitlines() for item in line.split(" | ")]


def numbers() -> list[str]:
    """Every pair of number types in the operators whose result depends on both."""
    pairs = [
        form.format(left, right)
        for left, right in combinations_with_replacement(NUMBERS, 2)
        for form in ("{} + {}", "{} * {}", "{} / {}", "{} % {}", "coalesce({}, {})")
    ]
    return [*pairs, "w - m", "m - w", "n / m", "w / m", "n % w"]


def type_of(rows: DataFrame, expression: str) -> str:
    """Spark's own spelling of the type, without NOT NULL and without a collation nobody asked for."""
    schema = rows.selectExpr(f"{expression} AS v")._jdf.schema()
    return schema.apply(0).dataType().asNullable().sql()


def schema_of(spark: SparkSession, ddl: str) -> list[list[str]] | None:
    """Names and types of a schema, or None where Spark refuses it."""
    try:
        parsed = spark._jvm.org.apache.spark.sql.types.StructType.fromDDL(ddl)
    except (CapturedException, Py4JError) as error:
        print("refused", ddl, "|", re.sub(r"\s+", " ", str(error))[:60])
        return None
    fields = [parsed.apply(at) for at in range(parsed.length())]
    return [[field.name(), field.dataType().asNullable().sql()] for field in fields]


def kind_of(spark: SparkSession, name: str) -> str:
    """What sort of function it is, by the class that carries it or else the group it is documented in."""
    jvm = spark._jvm
    catalog = spark._jsparkSession.sessionState().catalog()
    info = catalog.lookupFunctionInfo(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name))
    expressions = "org.apache.spark.sql.catalyst.expressions"
    bases = {
        "aggregate": f"{expressions}.aggregate.AggregateFunction",
        "generator": f"{expressions}.Generator",
        "window": f"{expressions}.WindowFunction",
    }
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    carrier = jvm.java.lang.Class.forName(info.getClassName(), False, loader)
    groups = {
        "agg_funcs": "aggregate",
        "generator_funcs": "generator",
        "window_funcs": "window",
        "table_funcs": "table",
    }
    if info.getGroup() in groups:
        return groups[info.getGroup()]
    for kind, base in bases.items():
        if jvm.java.lang.Class.forName(base, False, loader).isAssignableFrom(carrier):
            return kind
    return "scalar"


def write_functions(spark: SparkSession) -> None:
    """The names one can call; operators are listed by Spark as functions, too, and are left out."""
    names = [row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()]
    callable_names = sorted(name for name in names if re.match(r"[a-z_]\w*$", name) and name != "case")
    kinds = {name: kind_of(spark, name) for name in callable_names} | dict.fromkeys(IN_THE_GRAMMAR, "scalar")
    lines = [f"{name} {kind}" for name, kind in sorted(kinds.items())]
    head = f"# The builtin functions of Spark {spark.version}; made by tests/planning/sql/make_spark_types.py"
    FUNCTIONS.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    print(len(lines), "functions")


def main() -> None:
    """Ask and write."""
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    rows = spark.createDataFrame([], SCHEMA)
    per_row = {item: type_of(rows, item) for item in dict.fromkeys([*items(PER_ROW), *numbers()])}
    per_group = {item: type_of(rows, item) for item in items(PER_GROUP)}
    schemas = {ddl: schema_of(spark, ddl) for ddl in ["", *SCHEMAS.strip().splitlines()]}
    answers = {"spark": spark.version, "schema": SCHEMA, "row": per_row, "group": per_group, "ddl": schemas}
    text = json.dumps(answers, indent=1, ensure_ascii=False)
    (HERE / "spark_types.json").write_text(text + "\n", encoding="utf-8")
    print(len(per_row), "expressions of a row,", len(per_group), "of a group,", len(schemas), "schemas")
    write_functions(spark)


if __name__ == "__main__":
    main()
