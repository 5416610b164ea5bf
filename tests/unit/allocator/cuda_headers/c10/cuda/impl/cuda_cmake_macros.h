// PyTorch's build writes this header, and its CPU wheels come without: nothing need be in it.
#pragma once
