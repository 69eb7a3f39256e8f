"""Fits on a Dask cluster of this machine: two workers against one, and one against none.

python benchmarks/distributed.py                      all of it: results/distributed.json and .md
python benchmarks/distributed.py pass                 only this part; the other results stay
python benchmarks/distributed.py --rows 100000        fewer rows
"""

import sys

if __name__ == "__main__":
    sys.path.append(sys.path.pop(0))  # or else this file would hide Dask's package of the same name
    from cluster_runs import main

    main()
