#include "etl.h"
