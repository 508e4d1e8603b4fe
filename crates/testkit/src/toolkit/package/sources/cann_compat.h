// Included into every kernel of the project by a compile option.
#pragma once

#define PROJECT_COMPAT 1
