import collections
m=collections.defaultdict(list)
for l in open('/tmp/last/adds.txt'):
    f=l.split()
    for n,v in zip(f[1::2],f[2::2]): m[n.split('/')[1],f[0]].append(float(v))
for k in sorted(m): v=sorted(m[k]); print(k,v[:4],v[len(v)//2])
