/* What columns of JSON hold, by the numbers of flat_reader.py; a TEXT is JSON already. */

#pragma once

enum { BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, STRING, DATE, TIMESTAMP, TEXT };
